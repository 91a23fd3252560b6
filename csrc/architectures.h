// What is known of architectures, by their names in general.architecture.

#pragma once

#include <string>

namespace plumb {

// True if scoring a batch as a token trie was seen to equal scoring alone on this architecture. Others are scored one
// sequence at a time.
bool trie_scoring_was_checked(const std::string & architecture);

// True for an encoder (BERT and its kin): every token attends to all others, and none is predicted.
bool is_encoder(const std::string & architecture);

} // namespace plumb
