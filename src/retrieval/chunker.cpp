#include "retrieval/chunker.h"

#include <algorithm>
#include <array>

#include "base/nearest.h"
#include "base/utf8.h"

namespace makar {
namespace {

constexpr std::pair<const char*, ChunkKind> kKinds[] = {{"whole", ChunkKind::kWhole},
                                                        {"characters", ChunkKind::kCharacters},
                                                        {"tokens", ChunkKind::kTokens},
                                                        {"sentences", ChunkKind::kSentences},
                                                        {"headings", ChunkKind::kHeadings}};

constexpr size_t kMaxHeadingBytes = 200;
constexpr int64_t kMaxChunkSize = 10'000'000;

bool is_blank_byte(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f'; }

// Adds [begin, end) without the blanks around it, unless nothing is left or it repeats the last chunk.
void add_trimmed(std::string_view text, size_t begin, size_t end, const std::string& heading,
                 std::vector<TextChunk>& out) {
  while (begin < end && is_blank_byte(text[begin])) ++begin;
  while (end > begin && is_blank_byte(text[end - 1])) --end;
  if (begin == end) return;
  if (!out.empty() && out.back().end == end && out.back().begin <= begin) return;
  out.push_back({begin, end, heading});
}

// The offset `count` characters after `at`, at most `end`.
size_t forward(std::string_view text, size_t at, size_t end, int64_t count) {
  for (; count > 0 && at < end; --count) at += decode_utf8(text, at).size;
  return std::min(at, end);
}
size_t backward(std::string_view text, size_t at, size_t begin, int64_t count) {
  for (; count > 0 && at > begin; --count) {
    --at;
    while (at > begin && is_utf8_continuation(text[at])) --at;
  }
  return at;
}

void split_characters(std::string_view text, size_t begin, size_t end, const ChunkOptions& o,
                      const std::string& heading, std::vector<TextChunk>& out) {
  while (begin < end) {
    size_t stop = forward(text, begin, end, o.size);
    if (stop < end && !is_blank_byte(text[stop])) {
      const size_t half = begin + (stop - begin) / 2;
      size_t at = stop;
      while (at > half && !is_blank_byte(text[at - 1])) --at;
      if (at > half) stop = at;
    }
    add_trimmed(text, begin, stop, heading, out);
    if (stop >= end) return;
    size_t next = stop;
    if (o.overlap > 0) {
      next = std::max(backward(text, stop, begin, o.overlap), begin);
      size_t word = next;
      while (word < stop && word > begin && !is_blank_byte(text[word - 1])) ++word;
      if (word < stop || is_blank_byte(text[stop - 1]) || is_blank_byte(text[stop]))
        next = word;  // without a blank in the overlap, the chunk may start inside a word
    }
    begin = next > begin ? next : stop;
  }
}

void split_sentences(std::string_view text, size_t begin, size_t end, const ChunkOptions& o,
                     const std::string& heading, std::vector<TextChunk>& out) {
  const std::vector<Span> sentences = sentences_of(text.substr(begin, end - begin));
  const auto length = [&](size_t from, size_t to) {  // of sentences [from, to)
    return static_cast<int64_t>(count_code_points(
        text.substr(begin + sentences[from].begin, sentences[to - 1].end - sentences[from].begin)));
  };
  for (size_t first = 0; first < sentences.size();) {
    size_t last = first + 1;
    int64_t size = length(first, last);
    for (; last < sentences.size(); ++last) {
      const int64_t next_length = length(last, last + 1);
      if (size + next_length > o.size) break;
      size += next_length;
    }
    const size_t from = begin + sentences[first].begin, to = begin + sentences[last - 1].end;
    if (size > o.size) {
      split_characters(text, from, to, o, heading, out);
    } else {
      add_trimmed(text, from, to, heading, out);
    }
    if (last == sentences.size()) return;
    size_t next = last;
    for (int64_t shared = 0; next > first + 1; --next) {
      shared += length(next - 1, next);
      if (shared > o.overlap) break;
    }
    first = next;
  }
}

struct Section {
  size_t begin, end;
  std::string heading;
};

// Markdown's sections: a heading is a line of 1 to 6 '#' and a blank, outside of fenced code.
std::vector<Section> sections_of(std::string_view text) {
  std::vector<Section> out = {{0, text.size(), ""}};
  std::array<std::string, 6> path;
  bool fenced = false;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.starts_with("```") || line.starts_with("~~~")) fenced = !fenced;
    size_t level = 0;
    while (level < line.size() && line[level] == '#') ++level;
    if (!fenced && level >= 1 && level <= 6 && level < line.size() && line[level] == ' ') {
      std::string_view title = line.substr(level + 1);
      while (!title.empty() && (is_blank_byte(title.back()) || title.back() == '#')) title.remove_suffix(1);
      while (!title.empty() && is_blank_byte(title.front())) title.remove_prefix(1);
      std::string shortened(title.substr(0, kMaxHeadingBytes));
      shortened.resize(complete_utf8_prefix(shortened));
      path[level - 1] = shortened;
      std::fill(path.begin() + static_cast<std::ptrdiff_t>(level), path.end(), "");
      std::string heading;
      for (const std::string& part : path)
        if (!part.empty()) heading += (heading.empty() ? "" : " > ") + part;
      out.back().end = at;
      out.push_back({at, text.size(), heading});
    }
    at = end + 1;
  }
  return out;
}

Status split_tokens(std::string_view text, const ChunkOptions& o, const Tokenizer& tokenizer,
                    std::vector<TextChunk>& out) {
  MAKAR_TRY(const Encoding encoding, tokenizer.encode(text));
  const auto size = static_cast<size_t>(o.size), step = static_cast<size_t>(o.size - o.overlap);
  for (size_t at = 0; at < encoding.size(); at += step) {
    const size_t last = std::min(at + size, encoding.size());
    // Normalisers may drop characters between tokens; they belong to the token before.
    const size_t begin = at == 0 ? 0 : encoding.offsets[at].begin,
                 end = last == encoding.size() ? text.size() : encoding.offsets[last].begin;
    add_trimmed(text, begin, std::max(begin, end), "", out);
    if (last == encoding.size()) break;
  }
  return Done{};
}

}  // namespace

const char* name(ChunkKind kind) {
  for (const auto& [word, known] : kKinds)
    if (known == kind) return word;
  return "";
}

Result<ChunkKind> parse_chunk_kind(const std::string& text, const std::string& place) {
  std::vector<std::string> known;
  for (const auto& [word, kind] : kKinds) {
    if (word == text) return kind;
    known.emplace_back(word);
  }
  return error_at(place, "expected whole, characters, tokens, sentences or headings, got '{}'{}", text,
                  did_you_mean(text, known));
}

Status check_chunk_options(const ChunkOptions& o) {
  if (o.size < 1 || o.size > kMaxChunkSize)
    return error_at("--chunk-size", "must be from 1 to {}, got {}", kMaxChunkSize, o.size);
  if (o.overlap < 0 || o.overlap >= o.size)
    return error_at("--chunk-overlap", "must be from 0 to {} (less than --chunk-size), got {}", o.size - 1,
                    o.overlap);
  return Done{};
}

Result<std::vector<TextChunk>> split_chunks(std::string_view text, const ChunkOptions& o,
                                            const Tokenizer* tokenizer) {
  MAKAR_RETURN_IF_ERROR(check_chunk_options(o));
  std::vector<TextChunk> out;
  switch (o.kind) {
    case ChunkKind::kWhole:
      add_trimmed(text, 0, text.size(), "", out);
      break;
    case ChunkKind::kCharacters:
      split_characters(text, 0, text.size(), o, "", out);
      break;
    case ChunkKind::kSentences:
      split_sentences(text, 0, text.size(), o, "", out);
      break;
    case ChunkKind::kHeadings:
      for (const Section& section : sections_of(text))
        split_sentences(text, section.begin, section.end, o, section.heading, out);
      break;
    case ChunkKind::kTokens:
      if (!tokenizer) return error_at("--chunk", "chunks of tokens need a tokenizer: --tokenizer PATH");
      MAKAR_RETURN_IF_ERROR(split_tokens(text, o, *tokenizer, out));
      break;
  }
  return out;
}

}  // namespace makar
