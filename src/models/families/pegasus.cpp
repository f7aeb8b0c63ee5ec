// Pegasus (Zhang et al., 2020): BART with pre-norm and sinusoidal positions.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_pegasus(const Config& config) {
  Reader r(config);
  ModelSpec m =
      read_bart_like(r, {"pegasus", "Pegasus", true, false, PositionKind::kSinusoidal, true}, -1, 1, 0);
  if (m.decoder_start < 0) m.decoder_start = m.pad;
  return r.finish(m);
}

}  // namespace

const Family kPegasus = bart_family("pegasus", read_pegasus, bart_names);

}  // namespace makar
