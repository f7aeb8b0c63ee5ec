// Any bytes as a JSON schema: an Error, or a grammar whose masks and transitions agree.
#include "grammar_walk.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(infer_json_schema) {
  walk_grammar(Grammar::from_json_schema({reinterpret_cast<const char*>(data), size}, small_limits()), data,
               size);
  return 0;
}
