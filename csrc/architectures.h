// Which architectures token-trie scoring was checked on.

#pragma once

#include <string>

namespace plumb {

// True if scoring a batch as a token trie was seen to equal scoring alone on this architecture (by the name in
// general.architecture). Others are scored one sequence at a time.
bool trie_scoring_was_checked(const std::string & architecture);

} // namespace plumb
