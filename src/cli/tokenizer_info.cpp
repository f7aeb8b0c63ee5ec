// makar tokenizer info: the stages and sizes of a tokenizer.
#include <algorithm>
#include <cstdio>

#include "base/file.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "cli/tokenizer_options.h"
#include "text/unicode.h"

namespace makar {
namespace {

// "NFC", "Sequence(Split, ByteLevel)", "none"
std::string stage_text(const Json& json) {
  if (json.is_null()) return "none";
  const std::string type = json.value("type", "?");
  std::string parts;
  for (const char* key : {"normalizers", "pretokenizers", "processors", "decoders"})
    if (json.contains(key))
      for (const Json& part : json[key]) parts += (parts.empty() ? "" : ", ") + stage_text(part);
  return parts.empty() ? type : type + "(" + parts + ")";
}

struct VocabularySummary {
  size_t tokens = 0, bytes = 0;
  std::vector<std::pair<uint32_t, std::string>> longest;
};

VocabularySummary summarize_vocabulary(const Tokenizer& tokenizer) {
  VocabularySummary f;
  std::vector<std::pair<uint32_t, std::string>> all;
  for (uint32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (!tokenizer.token(id)) continue;
    ++f.tokens;
    all.emplace_back(
        id, tokenizer.byte_level() ? to_valid_utf8(tokenizer.decode_bytes({&id, 1})) : *tokenizer.token(id));
    f.bytes += all.back().second.size();
  }
  const size_t keep = std::min<size_t>(8, all.size());
  std::partial_sort(
      all.begin(), all.begin() + static_cast<ptrdiff_t>(keep), all.end(), [](const auto& a, const auto& b) {
        return a.second.size() != b.second.size() ? a.second.size() > b.second.size() : a.first < b.first;
      });
  all.resize(keep);
  f.longest = std::move(all);
  return f;
}

}  // namespace

int run_tokenizer_info(const std::vector<std::string>& arguments) {
  TokenizerOptions shared;
  bool json = false;
  Options options("tokenizer info",
                  "Show a tokenizer's pipeline and vocabulary, and bytes per token on files.",
                  "makar tokenizer info tokenizer.json book.txt");
  shared.declare(options);
  options
      .positional("TOKENIZER FILES...", &shared.words,
                  "the tokenizer (unless -m gives it), then text files to measure")
      .required = false;
  options.group("Output");
  options.add("--json", &json, "print one JSON object");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status resolved = shared.resolve(); !resolved.ok()) return report(resolved.error()), 2;
  const auto tokenizer = Tokenizer::load(shared.model);
  if (!tokenizer.ok()) return report(tokenizer.error());
  const Json& pipeline = tokenizer->pipeline();
  const VocabularySummary f = summarize_vocabulary(*tokenizer);
  size_t specials = 0;
  for (const AddedToken& token : tokenizer->added_tokens()) specials += token.special;

  Json out = {
      {"model", pipeline["model"].value("type", "?")},
      {"normalizer", stage_text(pipeline.value("normalizer", Json()))},
      {"pre_tokenizer", stage_text(pipeline.value("pre_tokenizer", Json()))},
      {"post_processor", stage_text(pipeline.value("post_processor", Json()))},
      {"decoder", stage_text(pipeline.value("decoder", Json()))},
      {"vocab_size", tokenizer->vocab_size()},
      {"tokens", f.tokens},
      {"added_tokens", tokenizer->added_tokens().size()},
      {"special_tokens", specials},
      {"byte_level", tokenizer->byte_level()},
      {"mean_token_bytes", f.tokens ? static_cast<double>(f.bytes) / static_cast<double>(f.tokens) : 0.0}};
  out["longest"] = Json::array();
  for (const auto& [id, text] : f.longest)
    out["longest"].push_back(
        {{"id", id}, {"bytes", text.size()}, {"token", to_valid_utf8(text.substr(0, 60))}});
  if (!shared.words.empty()) {
    const auto text = read_whole(shared.words);
    if (!text.ok()) return report(text.error());
    std::vector<uint32_t> ids;
    if (const Status status = tokenizer->append_ids(*text, {}, ids); !status.ok())
      return report(status.error());
    out["text_bytes"] = text->size();
    out["text_tokens"] = ids.size();
    out["bytes_per_token"] =
        ids.empty() ? 0.0 : static_cast<double>(text->size()) / static_cast<double>(ids.size());
  }
  if (json) return print_out(out.dump() + "\n") ? 0 : 1;
  for (const auto& [key, value] : out.items()) {
    if (key == "longest") {
      fmt::print("{:<18}\n", "longest tokens");
      for (const Json& one : value)
        fmt::print("  {:>8}  {:>4} bytes  {}\n", one["id"].get<uint32_t>(), one["bytes"].get<size_t>(),
                   one["token"].dump());
    } else {
      fmt::print("{:<18} {}\n", key,
                 value.is_string()         ? value.get<std::string>()
                 : value.is_number_float() ? fmt::format("{:.3f}", value.get<double>())
                                           : value.dump());
    }
  }
  return 0;
}

}  // namespace makar
