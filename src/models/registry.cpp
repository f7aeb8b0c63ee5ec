#include "base/nearest.h"
#include "base/quote.h"
#include "models/families/pages.h"

namespace makar {

const std::vector<const Family*>& families() {
  static const std::vector<const Family*> table = {
      &kGpt2, &kLlama, &kMistral, &kMixtral,    &kQwen2,  &kQwen3, &kGemma2, &kNeox,   &kFalcon, &kBloom,
      &kOpt,  &kBert,  &kRoberta, &kDistilBert, &kAlbert, &kT5,    &kBart,   &kMarian, &kVit,    &kDeit,
  };
  return table;
}

Result<const Family*> find_family(const Config& config) {
  MAKAR_TRY(const std::string type, config.text("model_type"));
  std::vector<std::string> known;
  for (const Family* f : families()) {
    if (type == f->type) return f;
    known.emplace_back(f->type);
  }
  Error error =
      config.wrong("model_type", fmt::format("is {}, which is not a supported family{}; supported are {}",
                                             quote(type), did_you_mean(type, known), fmt::join(known, ", ")));
  error.kind = Error::Kind::kUnsupported;
  return error;
}

}  // namespace makar
