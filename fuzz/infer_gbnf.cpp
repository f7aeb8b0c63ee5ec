// Any bytes as a GBNF grammar: an Error, or a grammar whose masks and transitions agree.
#include "grammar_walk.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(infer_gbnf) {
  walk_grammar(Grammar::from_gbnf({reinterpret_cast<const char*>(data), size}, small_limits()), data, size);
  return 0;
}
