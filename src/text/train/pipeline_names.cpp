// Named pipelines for training.
#include <algorithm>

#include "base/nearest.h"
#include "text/read/build_json.h"
#include "text/read/patterns.h"
#include "text/train/train.h"

namespace makar {
namespace {

Json metaspace() {
  return {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}, {"split", true}};
}

// [CLS] a [SEP] b [SEP], with the ids of the special tokens.
Json bert_template(const std::vector<std::string>& special) {
  const auto id = [&](const char* token) {
    const auto at = std::find(special.begin(), special.end(), token);
    return at == special.end() ? -1 : static_cast<int64_t>(at - special.begin());
  };
  if (id("[CLS]") < 0 || id("[SEP]") < 0) return nullptr;
  const auto token = [](const char* name, int type) {
    return Json{{"SpecialToken", {{"id", name}, {"type_id", type}}}};
  };
  const auto text = [](const char* name, int type) {
    return Json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  const auto entry = [&](const char* name) {
    return Json{{"id", name}, {"ids", Json::array({id(name)})}, {"tokens", Json::array({name})}};
  };
  Json out = {{"type", "TemplateProcessing"}};
  out["single"] = Json::array({token("[CLS]", 0), text("A", 0), token("[SEP]", 0)});
  out["pair"] =
      Json::array({token("[CLS]", 0), text("A", 0), token("[SEP]", 0), text("B", 1), token("[SEP]", 1)});
  out["special_tokens"] = {{"[CLS]", entry("[CLS]")}, {"[SEP]", entry("[SEP]")}};
  return out;
}

}  // namespace

Result<TrainPipeline> TrainPipeline::named(const std::string& name,
                                           const std::vector<std::string>& special_tokens) {
  TrainPipeline p;
  if (name == "byte-level") {
    p.pre_tokenizer = byte_level_stage(false, true);
    p.decoder = byte_level_stage(true, true);
  } else if (name == "llama3") {
    // Llama 3 has the pattern of cl100k.
    p.pre_tokenizer = sequence_stage(
        "pretokenizers", Json::array({split_stage(kCl100kPattern), byte_level_stage(false, false)}));
    p.decoder = byte_level_stage(true, true);
  } else if (name == "whitespace") {
    p.pre_tokenizer = {{"type", "Whitespace"}};
  } else if (name == "bert") {
    p.normalizer = {{"type", "BertNormalizer"},
                    {"clean_text", true},
                    {"handle_chinese_chars", true},
                    {"strip_accents", nullptr},
                    {"lowercase", true}};
    p.pre_tokenizer = {{"type", "BertPreTokenizer"}};
    p.post_processor = bert_template(special_tokens);
    p.decoder = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  } else if (name == "metaspace") {
    const Json blanks = {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}};
    p.normalizer = {{"type", "Sequence"}, {"normalizers", Json::array({Json{{"type", "NFKC"}}, blanks})}};
    p.pre_tokenizer = metaspace();
    p.decoder = metaspace();
  } else if (name != "none") {
    const std::vector<std::string> known = {"byte-level", "llama3",    "whitespace",
                                            "bert",       "metaspace", "none"};
    return error_at("pipeline", "unknown pipeline '{}'{}; expected one of {}", name,
                    did_you_mean(name, known), fmt::join(known, ", "));
  }
  return p;
}

}  // namespace makar
