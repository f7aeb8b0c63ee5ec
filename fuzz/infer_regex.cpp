// Any bytes as a regular expression: an Error, or a grammar whose masks and transitions agree.
#include "grammar_walk.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(infer_regex) {
  walk_grammar(Grammar::from_regex({reinterpret_cast<const char*>(data), size}, small_limits()), data, size);
  return 0;
}
