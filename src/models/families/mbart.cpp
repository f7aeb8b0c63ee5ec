// mBART (Liu et al., 2020): BART with pre-norm.
#include "models/families/pages.h"

namespace makar {
namespace {

// A translation starts with decoder_start_token_id, usually the target language; </s> (2) if it is not set.
Result<ModelSpec> read_mbart(const Config& config) {
  Reader r(config);
  ModelSpec m = read_bart_like(r, {"mbart", "MBart", true, true, PositionKind::kLearned, true}, 0, 2, 1);
  if (m.decoder_start < 0) m.decoder_start = 2;
  return r.finish(m);
}

}  // namespace

const Family kMbart = bart_family("mbart", read_mbart, bart_names);

}  // namespace makar
