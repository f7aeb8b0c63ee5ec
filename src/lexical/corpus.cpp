#include "lexical/corpus.h"

#include "base/nearest.h"
#include "base/utf8.h"
#include "data/schema.h"
#include "text/unicode.h"

namespace makar {
namespace {

bool is_blank_byte(char c) { return c == ' ' || (c >= '\t' && c <= '\r') || c == '\0'; }

constexpr int kMaxDepth = 8;  // strings nested deeper are ignored

void collect_strings(const Json& value, std::string& out, int depth) {
  if (value.is_string()) out += value.get_ref<const std::string&>() + "\n";
  if (depth < kMaxDepth && value.is_structured())
    for (const auto& item : value.items()) collect_strings(item.value(), out, depth + 1);
}

}  // namespace

Status check(const WordOptions& options) {
  if (options.split == "space" || options.split == "words") return Done{};
  return error_at("`split`", "must be space or words, got '{}'{}", options.split,
                  did_you_mean(options.split, {"space", "words"}));
}

void WordSplitter::split_at_spaces(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    while (at < text.size() && is_blank_byte(text[at])) ++at;
    const size_t from = at;
    while (at < text.size() && !is_blank_byte(text[at])) ++at;
    if (at > from) words_.push_back(text.substr(from, at - from));
  }
}

void WordSplitter::split_at_punctuation(std::string_view text) {
  size_t from = 0;
  bool open = false;  // inside of a word
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    const bool blank = is_space(c.code) || c.code == 0, part = !blank && is_word(c.code);
    if (open && !part) words_.push_back(text.substr(from, at - from)), open = false;
    if (part && !open) from = at, open = true;
    if (!part && !blank) words_.push_back(text.substr(at, c.size));
    at += c.size;
  }
  if (open) words_.push_back(text.substr(from));
}

const std::vector<std::string_view>& WordSplitter::split(std::string_view text) {
  words_.clear();
  if (lower_) {
    lowered_.clear();
    for (size_t at = 0; at < text.size();) {
      const CodePoint c = decode_utf8(text, at);
      if (c.code < 0x80)
        lowered_ += static_cast<char>(c.code >= 'A' && c.code <= 'Z' ? c.code + 32 : c.code);
      else
        for (const char32_t lower : lowercase(c.code)) append_utf8(lowered_, lower);
      at += c.size;
    }
    text = lowered_;
  }
  punctuation_ ? split_at_punctuation(text) : split_at_spaces(text);
  return words_;
}

std::string record_text(const Json& record) {
  if (const Json* text = text_field(record); text && text->is_string()) return text->get<std::string>();
  std::string out;
  collect_strings(record, out, 0);
  return out;
}

Status each_line(const std::vector<DataPath>& paths, const std::function<Status(std::string_view)>& use) {
  MAKAR_TRY(auto reader, RecordReader::open(paths));
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record));
    if (!found) return Done{};
    const std::string text = record_text(record.value);
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      MAKAR_RETURN_IF_ERROR(use(std::string_view(text).substr(at, end - at)));
      at = end + 1;
    }
  }
}

}  // namespace makar
