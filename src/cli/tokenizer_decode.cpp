// makar tokenizer decode: token ids to text.
#include <cstdio>

#include "base/json.h"
#include "base/quote.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "cli/tokenizer_options.h"

namespace makar {
namespace {

Error unknown_id(const std::string& place, const Tokenizer& tokenizer, const std::string& id) {
  return error_at(place, "{} is not an id of this tokenizer (0 to {})", id, tokenizer.vocab_size() - 1);
}

Result<std::vector<uint32_t>> parse_ids(std::string_view text, const Tokenizer& tokenizer) {
  std::vector<uint32_t> ids;
  const size_t vocab_size = tokenizer.vocab_size();
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == ',' || c == '[' || c == ']') {
      ++at;
      continue;
    }
    uint64_t value = 0;
    const size_t start = at;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9' && value < UINT32_MAX; ++at)
      value = value * 10 + static_cast<uint64_t>(text[at] - '0');
    if (at > start && value < vocab_size) {
      ids.push_back(static_cast<uint32_t>(value));
      continue;
    }
    const std::string place = fmt::format("byte {}", start);
    if (at == start)
      return error_at(place, "expected an id, found {}",
                      quote(text.substr(start, text.find_first_of(" \n\t\r,[]", start) - start)));
    return unknown_id(place, tokenizer, std::string(text.substr(start, at - start)));
  }
  return ids;
}

std::string decode_json_line(const Tokenizer& tokenizer, std::string_view line, size_t number,
                             bool skip_special) {
  const auto json = parse_json(line, "line");
  if (!json.ok()) return error_line(json.error(), number);
  if (!json->is_object() || !json->contains("ids") || !(*json)["ids"].is_array())
    return error_line(error_at("ids", "expected {{\"ids\": [...]}}"), number);
  std::vector<uint32_t> ids;
  for (const Json& id : (*json)["ids"]) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= tokenizer.vocab_size())
      return error_line(unknown_id("ids", tokenizer, id.dump().substr(0, 40)), number);
    ids.push_back(id.get<uint32_t>());
  }
  return Json{{"text", tokenizer.decode(ids, skip_special)}}.dump() + "\n";
}

}  // namespace

int run_tokenizer_decode(const std::vector<std::string>& arguments) {
  TokenizerOptions shared;
  bool jsonl = false, lines = false, skip_special = false;
  Options options("tokenizer decode", "Decode token ids to text.",
                  "echo '15496 995' | makar tokenizer decode tokenizer.json");
  shared.declare(options);
  options
      .positional("TOKENIZER FILES...", &shared.words,
                  "the tokenizer (unless -m gives it), then files of ids; standard input if there is none")
      .required = false;
  options.add("--lines", &lines, "decode each line separately");
  options.add("--jsonl", &jsonl, "read one {\"ids\"} per line and print one {\"text\"} per line");
  options.group("Output");
  options.add("--skip-special", &skip_special, "omit special tokens");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status resolved = shared.resolve(); !resolved.ok()) return report(resolved.error()), 2;
  const auto tokenizer = Tokenizer::load(shared.model);
  if (!tokenizer.ok()) return report(tokenizer.error());
  if (!jsonl && !lines) {
    const auto text = read_whole(shared.words);
    if (!text.ok()) return report(text.error());
    const auto ids = parse_ids(*text, *tokenizer);
    if (!ids.ok())
      return report(ids.error().in(shared.words.empty() ? "standard input" : shared.words.front()));
    return print_out(tokenizer->decode_bytes(*ids, skip_special)) ? 0 : 1;
  }
  bool failed = false;
  const Status status =
      each_line_batch(shared.words, [&](const std::vector<std::string_view>& batch, size_t first) {
        std::string out;
        for (size_t i = 0; i < batch.size(); ++i) {
          if (jsonl) {
            out += decode_json_line(*tokenizer, batch[i], first + i, skip_special);
            continue;
          }
          const auto ids = parse_ids(batch[i], *tokenizer);
          out += ids.ok() ? tokenizer->decode(*ids, skip_special) + "\n" : error_line(ids.error(), first + i);
        }
        failed = !print_out(out);
        return !failed;
      });
  if (!status.ok()) return report(status.error());
  return failed ? 1 : 0;
}

}  // namespace makar
