// makar tokenizer encode: text to token ids.
#include <fmt/compile.h>

#include <cstdio>

#include "base/json.h"
#include "cli/model_options.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "cli/tokenizer_options.h"
#include "text/pipeline.h"
#include "text/unicode.h"

namespace makar {
namespace {

void append_spans(std::string& out, const std::vector<Span>& spans) {
  out += '[';
  for (size_t i = 0; i < spans.size(); ++i)
    fmt::format_to(std::back_inserter(out), FMT_COMPILE("{}[{},{}]"), i ? "," : "", spans[i].begin,
                   spans[i].end);
  out += ']';
}

template <class List>
void append_list(std::string& out, const List& list) {
  out += '[';
  for (size_t i = 0; i < list.size(); ++i)
    fmt::format_to(std::back_inserter(out), FMT_COMPILE("{}{}"), i ? "," : "",
                   static_cast<uint32_t>(list[i]));
  out += ']';
}

// {"ids", "offsets" (code points), "byte_offsets"}; pairs have "type_ids" too, and "sequence_ids": which of
// the two texts the offsets point into.
std::string json_line(std::string_view text, const std::string* pair, const Encoding& encoding) {
  std::string out = "{\"ids\":";
  append_list(out, encoding.ids);
  std::vector<Span> offsets = code_point_offsets(text, encoding.offsets);
  if (pair) {
    out += ",\"type_ids\":";
    append_list(out, encoding.type_ids);
    out += ",\"sequence_ids\":";
    append_list(out, encoding.sequence_ids);
    const std::vector<Span> second = code_point_offsets(*pair, encoding.offsets);
    for (size_t i = 0; i < offsets.size(); ++i)
      if (encoding.sequence_ids[i] == 1) offsets[i] = second[i];
  }
  out += ",\"offsets\":";
  append_spans(out, offsets);
  out += ",\"byte_offsets\":";
  append_spans(out, encoding.offsets);
  return out + "}\n";
}

std::string encode_json_line(const Tokenizer& tokenizer, std::string_view line, size_t number,
                             const EncodeOptions& options) {
  const auto json = parse_json(line, "line");
  if (!json.ok()) return error_line(json.error(), number);
  if (!json->is_object() || !json->contains("text") || !(*json)["text"].is_string())
    return error_line(error_at("text", "expected {{\"text\": \"...\"}}"), number);
  const auto& text = (*json)["text"].get_ref<const std::string&>();
  const std::string* pair = nullptr;
  if (json->contains("pair") && !(*json)["pair"].is_null()) {
    if (!(*json)["pair"].is_string()) return error_line(error_at("pair", "expected a string"), number);
    pair = &(*json)["pair"].get_ref<const std::string&>();
  }
  const auto encoding = pair ? tokenizer.encode_pair(text, *pair, options) : tokenizer.encode(text, options);
  if (!encoding.ok()) return error_line(encoding.error(), number);
  return json_line(text, pair, *encoding);
}

// The ids alone, without a copy of the text or the ids: a line may have a gigabyte.
Result<std::string> ids_line(const Tokenizer& tokenizer, std::string_view text,
                             const EncodeOptions& options) {
  std::vector<uint32_t> ids;
  MAKAR_RETURN_IF_ERROR(tokenizer.append_ids(text, options, ids));
  std::string out;
  out.reserve(ids.size() * 6 + 1);
  for (const uint32_t id : ids) {
    if (!out.empty()) out += ' ';
    const fmt::format_int digits(id);
    out.append(digits.data(), digits.size());
  }
  return out += '\n';
}

std::string pieces_line(const Tokenizer& tokenizer, const Encoding& encoding) {
  Json pieces = Json::array();
  for (const uint32_t id : encoding.ids) pieces.push_back(tokenizer.token(id).value_or(""));
  return pieces.dump() + "\n";
}

// The merges of each word, one line per step.
Result<std::string> explain(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options) {
  MAKAR_TRY(const std::vector<Words> all, tokenizer.impl().words(text, options));
  const auto* bpe = dynamic_cast<const Bpe*>(tokenizer.impl().model.get());
  std::string out;
  std::vector<ModelToken> tokens;
  const auto show = [&](const std::vector<ModelToken>& list) {
    std::string line;
    for (const ModelToken& token : list)
      line += (line.empty() ? "" : " | ") + tokenizer.token(token.id).value_or("?");
    return line;
  };
  for (const Words& words : all)
    for (const Span range : words.ranges) {
      const std::string_view word =
          std::string_view(words.text.text()).substr(range.begin, range.end - range.begin);
      const Span from = words.text.original(range.begin, range.end);
      out += fmt::format("word {} bytes {}..{}\n", Json(to_valid_utf8(word)).dump(), from.begin, from.end);
      if (word.size() > 4096) {
        out += "  (too long to show)\n";
      } else if (bpe) {
        for (const Bpe::Step& step : bpe->explain(word))
          out += step.rank == UINT32_MAX ? fmt::format("  {}\n", show(step.tokens))
                                         : fmt::format("  {}   (merge {})\n", show(step.tokens), step.rank);
      } else {
        tokens.clear();
        MAKAR_RETURN_IF_ERROR(tokenizer.impl().model->tokenize(word, nullptr, tokens));
        out += fmt::format("  {}\n", show(tokens));
      }
    }
  return out;
}

struct EncodeCommand {
  TokenizerOptions shared;
  bool lines = false, jsonl = false, json = false, pieces = false, explain_merges = false;
  std::string text;
  int64_t threads = 0, max_length = 0;
};

void declare_encode(Options& options, EncodeCommand& c) {
  c.shared.declare(options);
  options
      .positional("TOKENIZER FILES...", &c.shared.words,
                  "the tokenizer (unless -m gives it), then text files; standard input if there is none")
      .required = false;
  options.add("--text", &c.text, "encode this text", "TEXT");
  options.add("--lines", &c.lines, "encode each line separately");
  options.add("--jsonl", &c.jsonl,
              "read one {\"text\"} per line and print one {\"ids\", \"offsets\"} per line; offsets in code "
              "points, byte_offsets in bytes");
  options.group("Output");
  options.add("--json", &c.json, "print JSON with offsets");
  options.add("--pieces", &c.pieces, "print the tokens instead of the ids");
  options.add("--explain", &c.explain_merges, "show the merges of each word step by step");
  options.add("--max-length", &c.max_length, "truncate to this many tokens; 0 for no limit", "N");
  c.shared.declare_special(options);
  declare_threads(options, c.threads);
}

// Every error is bad usage: exit code 2.
Status check_encode(EncodeCommand& c) {
  MAKAR_RETURN_IF_ERROR(c.shared.resolve());
  if (c.max_length < 0) return error_at("--max-length", "expected 0 or more, got {}", c.max_length);
  if (c.json + c.pieces + c.explain_merges > 1)
    return error_at("--json", "--json, --pieces and --explain cannot be combined");
  return Done{};
}

EncodeOptions encode_options(const EncodeCommand& c) {
  EncodeOptions out = c.shared.encode_options();
  if (c.max_length > 0) {
    out.truncation = Truncation{};
    out.truncation->max_length = static_cast<size_t>(c.max_length);
  }
  out.offsets = c.jsonl || c.json;
  return out;
}

// What is printed for a text: ids, JSON, tokens or merges.
Result<std::string> encoded_text(const EncodeCommand& c, const Tokenizer& tokenizer, std::string_view text,
                                 const EncodeOptions& encode) {
  if (c.explain_merges) return explain(tokenizer, text, encode);
  if (!c.json && !c.pieces) return ids_line(tokenizer, text, encode);
  MAKAR_TRY(const Encoding encoding, tokenizer.encode(text, encode));
  if (c.json) return json_line(text, nullptr, encoding);
  return pieces_line(tokenizer, encoding);
}

// Encodes each line of the input, in parallel. Returns the exit code.
int encode_lines(const EncodeCommand& c, const Tokenizer& tokenizer, const EncodeOptions& encode) {
  ThreadPool pool(static_cast<int>(c.threads));
  bool failed = false;
  const Status status =
      each_line_batch(c.shared.words, [&](const std::vector<std::string_view>& batch, size_t first) {
        std::vector<std::string> out(batch.size());
        pool.for_ranges(static_cast<int64_t>(batch.size()), 1, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            if (c.jsonl) {
              out[i] = encode_json_line(tokenizer, batch[i], first + i, encode);
            } else {
              auto line = encoded_text(c, tokenizer, batch[i], encode);
              out[i] = line.ok() ? std::move(*line) : error_line(line.error(), first + i);
            }
          }
        });
        for (std::string& line : out) {
          failed = failed || std::fwrite(line.data(), 1, line.size(), stdout) != line.size();
          line = {};
        }
        failed = failed || std::fflush(stdout) != 0;
        return !failed;
      });
  if (!status.ok()) return report(status.error());
  return failed ? 1 : 0;
}

}  // namespace

int run_tokenizer_encode(const std::vector<std::string>& arguments) {
  EncodeCommand c;
  Options options("tokenizer encode",
                  "Encode text to token ids: standard input or files, whole, by lines or as JSON lines.",
                  "echo 'Hello world' | makar tokenizer encode tokenizer.json");
  declare_encode(options, c);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status checked = check_encode(c); !checked.ok()) return report(checked.error()), 2;
  const auto tokenizer = Tokenizer::load(c.shared.model);
  if (!tokenizer.ok()) return report(tokenizer.error());
  const EncodeOptions encode = encode_options(c);
  if (c.lines || c.jsonl) return encode_lines(c, *tokenizer, encode);
  Result<std::string> text = c.text;
  if (!options.given("--text")) text = read_whole(c.shared.words);
  if (!text.ok()) return report(text.error());
  const auto out = encoded_text(c, *tokenizer, *text, encode);
  if (!out.ok()) return report(out.error());
  return print_out(*out) ? 0 : 1;
}

}  // namespace makar
