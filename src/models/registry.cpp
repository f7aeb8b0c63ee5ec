// The table of makar's families, and the families added by programs that use makar as a library.
#include "base/nearest.h"
#include "base/quote.h"
#include "models/add_family.h"
#include "models/families/pages.h"

namespace makar {

const std::vector<const Family*>& families() {
  static const std::vector<const Family*> table = {
      &kLlama,     &kMistral,    &kMixtral,    &kQwen2,      &kQwen3,     &kQwen2Moe,
      &kQwen3Moe,  &kGemma,      &kGemma2,     &kGemma3,     &kPhi,       &kPhi3,
      &kGptOss,    &kOlmo2,      &kOlmoe,      &kSmolLm3,    &kGranite,   &kCohere,
      &kCohere2,   &kStableLm,   &kGlm4,       &kStarcoder2, &kNemotron,  &kErnie45,
      &kExaone4,   &kDeepseekV2, &kDeepseekV3, &kGpt2,       &kOpenAiGpt, &kGptj,
      &kGptNeo,    &kGptBigCode, &kMpt,        &kXglm,       &kNeox,      &kFalcon,
      &kBloom,     &kOpt,        &kBert,       &kRoberta,    &kElectra,   &kXlmRoberta,
      &kCamembert, &kAlbert,     &kDistilBert, &kMpnet,      &kRoFormer,  &kModernBert,
      &kT5,        &kMt5,        &kUmt5,       &kBart,       &kMbart,     &kM2m100,
      &kPegasus,   &kMarian,     &kVit,        &kDeit,       &kMamba,     &kMamba2,
      &kLfm2,      &kDebertaV2,  &kXlnet,      &kClip,       &kLlava,     &kVisionEncoderDecoder,
      &kRnn,       &kLstm,       &kGru,        &kElmo,       &kLamda,
  };
  return table;
}

namespace {
std::vector<const Family*>& added_families() {
  static std::vector<const Family*> list;
  return list;
}
}  // namespace

void add_family(const Family& family) { added_families().push_back(&family); }

Result<const Family*> find_family(const Config& config) {
  MAKAR_TRY(const std::string type, config.text("model_type"));
  for (const Family* f : added_families())
    if (type == f->type) return f;
  std::vector<std::string> known;
  for (const Family* f : families()) {
    if (type == f->type) return f;
    known.emplace_back(f->type);
  }
  Error error = config.field_error(
      "model_type", fmt::format("is {}, which is not a supported family{}; supported are {}", quote(type),
                                did_you_mean(type, known), fmt::join(known, ", ")));
  error.kind = Error::Kind::kUnsupported;
  return error;
}

}  // namespace makar
