// M2M-100 and NLLB (Fan et al., 2020): BART with pre-norm and fairseq's sinusoidal positions.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_m2m_100(const Config& config) {
  Reader r(config);
  ModelSpec m = read_bart_like(r, {"m2m_100", "M2M100", true, false, PositionKind::kFairseq, false}, 0, 2, 1);
  if (m.decoder_start < 0) m.decoder_start = 2;
  return r.finish(m);
}

}  // namespace

const Family kM2m100 = bart_family("m2m_100", read_m2m_100, bart_names);

}  // namespace makar
