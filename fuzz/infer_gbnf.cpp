// Any bytes as a GBNF grammar: an Error, or a grammar whose masks and transitions agree.
#include "grammar_walk.h"

using namespace makar;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  walk_grammar(Grammar::from_gbnf({reinterpret_cast<const char*>(data), size}, small_limits()), data, size);
  return 0;
}
