#include "text/read/gguf_pre.h"

#include <algorithm>

#include "base/nearest.h"
#include "text/pre_tokenizer.h"
#include "text/read/build_json.h"
#include "text/read/patterns.h"

namespace makar {
namespace {

constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))*((?=[\p{L}])([^A-Z]))+|[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))+((?=[\p{L}])([^A-Z]))*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kCjk = R"([\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr const char* kBloom = R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{0964}\x{06D4}\x{060C})]+)";
constexpr const char* kDeepseekV3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct Kind {
  std::vector<const char*> names;
  std::vector<const char*> patterns;
  bool ignore_merges = false;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> table = {
      {{"default"}, {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Pattern, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
      {{"gpt-2", "phi-2", "jina-es", "jina-de", "jina-v1-en", "jina-v2-es", "jina-v2-de", "mpt", "olmo",
        "jais", "trillion", "gigachat", "roberta-bpe", "granite-docling"},
       {kGpt2Pattern}},
      {{"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"},
       {kCl100kPattern},
       true},
      {{"dbrx", "smaug-bpe", "chatglm-bpe", "glm4"}, {kCl100kPattern}},
      {{"qwen2", "stablelm2", "deepseek-r1-qwen", "hunyuan", "megrez", "mellum"}, {kQwen2Pattern}},
      {{"gpt-4o", "llama4"}, {kO200kPattern}},
      {{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"},
       {R"(\p{N})", kGpt2Pattern}},
      {{"falcon"}, {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2Pattern, "[0-9][0-9][0-9]"}},
      {{"deepseek-coder"}, {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kCjk, R"(\p{N})"}},
      {{"deepseek-v3", "hunyuan-dense"},
       {R"(\p{N}{1,3})", R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)", kDeepseekV3}},
      {{"tekken"}, {kTekken}, true},
      {{"bloom", "gpt3-finnish", "poro-chat"}, {kBloom}},
      {{"viking"}, {kBloom, R"(\p{N})"}},
  };
  return table;
}

}  // namespace

std::vector<std::string> gguf_pre_kinds() {
  std::vector<std::string> out = {"gpt-2", "llama-bpe", "qwen2"};
  for (const Kind& kind : kinds())
    if (std::find(out.begin(), out.end(), kind.names[0]) == out.end()) out.emplace_back(kind.names[0]);
  return out;
}

Result<GgufPre> gguf_pre(const std::string& kind) {
  std::vector<std::string> known;
  for (const Kind& entry : kinds())
    for (const char* name : entry.names) {
      known.emplace_back(name);
      if (kind != name) continue;
      Json stages = Json::array();
      for (const char* pattern : entry.patterns) stages.push_back(split_stage(pattern));
      stages.push_back(byte_level_stage(false, false));
      return GgufPre{sequence_stage("pretokenizers", std::move(stages)), entry.ignore_merges};
    }
  return error_of(Error::Kind::kUnsupported, "tokenizer.ggml.pre", "unknown kind '{}'{}", kind.substr(0, 80),
                  did_you_mean(kind.substr(0, 80), known));
}

}  // namespace makar
