#include "lexical/vector_files.h"

#include <charconv>
#include <cmath>

#include "base/file_writer.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "lexical/byte_window.h"
#include "lexical/fasttext_file.h"

namespace makar {
namespace {

constexpr size_t kMaxNumberBytes = 64;  // of a number in a text file

std::string_view take_field(std::string_view& rest) {
  const size_t from = rest.find_first_not_of(" \t");
  if (from == rest.npos) return rest = {}, rest;
  const size_t end = std::min(rest.find_first_of(" \t", from), rest.size());
  const std::string_view out = rest.substr(from, end - from);
  rest.remove_prefix(end);
  return out;
}

template <class T>
bool parse(std::string_view text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

// "COUNT WIDTH"
bool parse_header(std::string_view line, uint64_t& count, uint64_t& width) {
  std::string_view rest = line;
  return parse(take_field(rest), count) && parse(take_field(rest), width) && take_field(rest).empty();
}

// Numbers after a word; -1 if one is not a finite number.
int64_t parse_numbers(std::string_view rest, std::vector<float>& out) {
  out.clear();
  for (std::string_view field = take_field(rest); !field.empty(); field = take_field(rest)) {
    float value = 0;
    if (!parse(field, value) || !std::isfinite(value)) return -1;
    out.push_back(value);
  }
  return static_cast<int64_t>(out.size());
}

// Collects vectors. Memory grows with the bytes that are read, so a damaged header cannot allocate
// much.
class Collector {
 public:
  explicit Collector(size_t width) : width_(width) {}
  void add(std::string_view word, const float* values) {
    if (words_.add(word) * width_ != values_.size()) return;  // a repeated word
    values_.insert(values_.end(), values, values + width_);
  }
  size_t size() const { return words_.size(); }
  WordVectors finish() {
    WordVectors out{std::move(words_), width_, {}};
    out.rows = RowMatrix(out.words.size(), padded(width_));
    for (size_t i = 0; i < out.words.size(); ++i)
      std::copy_n(values_.data() + i * width_, width_, out.rows.row(i));
    return out;
  }

 private:
  NumberedWords words_;
  size_t width_;
  std::vector<float> values_;
};

Result<WordVectors> read_binary(ByteWindow& in, uint64_t count, size_t width) {
  Collector out(width);
  std::vector<float> values(width);
  for (uint64_t i = 0; i < count; ++i) {
    MAKAR_TRY(std::string_view bytes, in.look(kMaxWordBytes + 2));
    const size_t from = bytes.starts_with('\n') ? 1 : 0, space = bytes.find(' ', from);
    if (space == bytes.npos || space - from > kMaxWordBytes)
      return error_at(
          in.place(),
          "expected vector {} of {}: a word and a blank; the file is truncated or of another format", i + 1,
          count);
    const std::string word(bytes.substr(from, space - from));
    in.take(space + 1);
    MAKAR_TRY(bytes, in.look(width * sizeof(float)));
    if (bytes.size() < width * sizeof(float))
      return error_at(in.place(), "the file ends inside vector {} of {}; it is truncated", i + 1, count);
    std::memcpy(values.data(), bytes.data(), width * sizeof(float));
    for (const float v : values)
      if (!std::isfinite(v))
        return error_at(in.place(), "the vector of {} has a number that is not finite", quote(word));
    in.take(width * sizeof(float));
    out.add(word, values.data());
  }
  return out.finish();
}

Result<WordVectors> read_text(ByteWindow& in, std::string line, size_t width, std::optional<uint64_t> count) {
  const size_t limit = kMaxWordBytes + width * kMaxNumberBytes;
  Collector out(width);
  std::vector<float> values;
  uint64_t vectors_read = 0;
  for (uint64_t line_number = count ? 2 : 1;; ++line_number) {
    std::string_view rest = line;
    const std::string_view word = take_field(rest);
    if (word.empty() || parse_numbers(rest, values) != static_cast<int64_t>(width)) {
      if (!line.empty())
        return error_at(in.place(), "line {}: expected a word and {} numbers, found {}", line_number, width,
                        quote(line));
    } else {
      out.add(word, values.data()), ++vectors_read;
    }
    MAKAR_TRY(auto next, in.line(limit));
    if (!next) break;
    line = std::move(*next);
  }
  if (count && vectors_read != *count)
    return error_at(in.place(), "the header says {} words, there are {}; the file is truncated or damaged",
                    *count, vectors_read);
  return out.finish();
}

}  // namespace

Result<VectorFormat> vector_format_named(const std::string& name) {
  if (name == "text") return VectorFormat::kText;
  if (name == "binary") return VectorFormat::kBinary;
  if (name == "glove") return VectorFormat::kGlove;
  if (name == "fasttext") return VectorFormat::kFastText;
  return error_at("`format`", "must be text, binary, glove or fasttext, got '{}'{}", name,
                  did_you_mean(name, {"text", "binary", "glove", "fasttext"}));
}

Result<WordVectors> read_vectors(ByteStream& stream) {
  ByteWindow in(stream);
  MAKAR_TRY(const bool fasttext, is_fasttext(in));
  if (fasttext) return read_fasttext(in);
  MAKAR_TRY(auto first, in.line(kMaxWordBytes + kMaxWidth * kMaxNumberBytes));
  if (!first) return error_at(stream.place(), "the file is empty; expected word vectors");
  uint64_t count = 0, width = 0;
  std::vector<float> values;
  if (parse_header(*first, count, width)) {
    if (width < 1 || width > kMaxWidth || count > kMaxVectors)
      return error_of(Error::Kind::kLimit, stream.place(),
                      "the limits are {} words of 1 to {} numbers, found {}", kMaxVectors, kMaxWidth,
                      quote(*first));
    // Text if the next line is a word and numbers.
    MAKAR_TRY(const std::string_view next, in.look(kMaxWordBytes + width * kMaxNumberBytes));
    const std::string_view line = next.substr(0, next.find('\n'));
    std::string_view rest = line, fields = line;
    size_t field_count = 0;
    while (!take_field(fields).empty()) ++field_count;
    // A line with the right number of fields is text even if a field is not a number: read_text reports it.
    if (!take_field(rest).empty() && (parse_numbers(rest, values) == static_cast<int64_t>(width) ||
                                      (width > 1 && field_count == width + 1 && is_valid_utf8(line)))) {
      const std::string begin(line);
      in.take(std::min(begin.size() + 1, next.size()));
      return read_text(in, begin, width, count);
    }
    return read_binary(in, count, width);
  }
  std::string_view rest = *first;
  (void)take_field(rest);
  const int64_t numbers = parse_numbers(rest, values);
  if (numbers < 1 || numbers > static_cast<int64_t>(kMaxWidth))
    return error_at(stream.place(),
                    "expected word vectors: a line `COUNT WIDTH`, or a word and its numbers; found {}",
                    quote(*first));
  return read_text(in, *first, static_cast<size_t>(numbers), std::nullopt);
}

Result<WordVectors> load_vectors(const std::string& path) {
  MAKAR_TRY(const auto stream, ByteStream::open(path));
  return read_vectors(*stream);
}

Status write_vectors(const WordVectors& v, VectorFormat format,
                     const std::function<Status(std::string_view)>& write) {
  if (format == VectorFormat::kFastText) return write_fasttext(v, write);
  std::string out;
  if (format != VectorFormat::kGlove) out = fmt::format("{} {}\n", v.words.size(), v.width);
  for (uint32_t i = 0; i < v.words.size(); ++i) {
    out += v.words.word(i);
    if (format == VectorFormat::kBinary) {
      out += ' ';
      out.append(reinterpret_cast<const char*>(v.rows.row(i)), v.width * sizeof(float));
    } else {
      for (size_t j = 0; j < v.width; ++j) fmt::format_to(std::back_inserter(out), " {}", v.rows.row(i)[j]);
    }
    out += '\n';
    if (out.size() > size_t{1} << 20) {
      MAKAR_RETURN_IF_ERROR(write(out));
      out.clear();
    }
  }
  return write(out);
}

Status save_vectors(const WordVectors& vectors, VectorFormat format, const std::string& path) {
  MAKAR_TRY(auto file, FileWriter::open(path));
  MAKAR_RETURN_IF_ERROR(
      write_vectors(vectors, format, [&](std::string_view text) { return file.write(text); }));
  return file.commit();
}

}  // namespace makar
