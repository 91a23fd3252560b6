#include "architectures.h"

#include <algorithm>
#include <iterator>

namespace plumb {

namespace {

// Sorted.
const char * const trie_checked[] = {
    "gemma3",
    "llama",
};

} // namespace

bool trie_scoring_was_checked(const std::string & architecture) {
    return std::binary_search(std::begin(trie_checked), std::end(trie_checked), architecture);
}

} // namespace plumb
