// mT5 (Xue et al., 2021) and UMT5 (Chung et al., 2023): T5 trained on many languages.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_mt5(const Config& config) {
  Reader r(config);
  return r.finish(read_t5_like(r, "mt5", "MT5"));
}
Result<ModelSpec> read_umt5(const Config& config) {
  Reader r(config);
  return r.finish(read_t5_like(r, "umt5", "UMT5"));
}

// A GGUF file of mT5 has the architecture t5 and is read as T5.
const GgufSection kMt5Gguf = t5_gguf([](const GgufFields&) { return false; });

}  // namespace

const Family kMt5 = t5_family("mt5", read_mt5, &kMt5Gguf);
const Family kUmt5 = t5_family("umt5", read_umt5, nullptr);

}  // namespace makar
