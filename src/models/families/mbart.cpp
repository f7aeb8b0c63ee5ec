// mBART (Liu et al., 2020): BART with pre-norm.
#include "models/families/pages.h"

namespace makar {
namespace {

// The target language's token starts a translation: decoder_start_token_id, or the first forced token.
Result<ModelSpec> read_mbart(const Config& config) {
  Reader r(config);
  ModelSpec m = read_bart_like(r, {"mbart", "MBart", true, true, PositionKind::kLearned, true}, 0, 2, 1);
  if (m.decoder_start < 0) m.decoder_start = 2;
  return r.finish(m);
}

}  // namespace

const Family kMbart = bart_family("mbart", read_mbart, bart_names);

}  // namespace makar
