#include "lexical/fasttext_file.h"

#include <algorithm>
#include <cmath>

#include "base/quote.h"
#include "base/resident.h"

namespace makar {
namespace {

constexpr int32_t kMagic = 793712314, kVersion = 12;
constexpr int32_t kSupervised = 3;  // Header::model; 1: cbow, 2: skipgram
// The limit of floats that are added to compute the vectors of all words.
constexpr uint64_t kMaxSummedFloats = 1'000'000'000'000;

Result<std::string_view> bytes_of(ByteWindow& in, size_t size, std::string_view what) {
  MAKAR_TRY(const std::string_view bytes, in.look(size));
  if (bytes.size() < size) return error_at(in.place(), "the file ends inside {}; it is truncated", what);
  return bytes.substr(0, size);
}

template <class T>
Result<T> read_number(ByteWindow& in, std::string_view what) {
  MAKAR_TRY(const std::string_view bytes, bytes_of(in, sizeof(T), what));
  T out;
  std::memcpy(&out, bytes.data(), sizeof(T));
  in.take(sizeof(T));
  return out;
}

struct Header {
  int32_t width, window, epochs, min_count, negatives, word_ngrams, loss, model, buckets, min_ngram,
      max_ngram, rate_updates;  // loss is 1: hierarchical softmax, 2: negative sampling, 3: softmax
  double subsample;
};

Result<Header> read_header(ByteWindow& in) {
  MAKAR_TRY(const auto magic, read_number<int32_t>(in, "the header"));
  check(magic == kMagic, "the caller has recognised the file with is_fasttext");
  MAKAR_TRY(const auto version, read_number<int32_t>(in, "the header"));
  if (version != kVersion && version != kVersion - 1)
    return error_of(Error::Kind::kUnsupported, in.place(),
                    "fastText versions 11 and 12 are supported, found {}", version);
  Header h;
  for (int32_t* field : {&h.width, &h.window, &h.epochs, &h.min_count, &h.negatives, &h.word_ngrams, &h.loss,
                         &h.model, &h.buckets, &h.min_ngram, &h.max_ngram, &h.rate_updates}) {
    MAKAR_TRY(*field, read_number<int32_t>(in, "the header"));
  }
  MAKAR_TRY(h.subsample, read_number<double>(in, "the header"));
  if (version < kVersion && h.model == kSupervised) h.max_ngram = 0;
  const bool valid_sizes = h.width >= 1 && h.width <= static_cast<int32_t>(kMaxWidth) && h.buckets >= 0 &&
                           h.buckets <= 100'000'000 && h.min_ngram >= 0 && h.max_ngram >= 0 &&
                           h.max_ngram <= 20;
  if (!valid_sizes)
    return error_of(Error::Kind::kLimit, in.place(),
                    "the limits are {} dimensions, 100,000,000 buckets and n-grams of 20 characters, found "
                    "{}, {} and {} to {}",
                    kMaxWidth, h.width, h.buckets, h.min_ngram, h.max_ngram);
  return h;
}

struct Vocabulary {
  NumberedWords words;
  std::vector<uint64_t> counts;
  uint64_t tokens = 0;
};

Result<Vocabulary> read_vocabulary(ByteWindow& in) {
  MAKAR_TRY(const auto size, read_number<int32_t>(in, "the vocabulary"));
  MAKAR_TRY(const auto words, read_number<int32_t>(in, "the vocabulary"));
  MAKAR_TRY(const auto labels, read_number<int32_t>(in, "the vocabulary"));
  MAKAR_TRY(const auto tokens, read_number<int64_t>(in, "the vocabulary"));
  MAKAR_TRY(const auto pruned, read_number<int64_t>(in, "the vocabulary"));
  if (words < 0 || labels < 0 || int64_t{words} + labels != size || size > static_cast<int32_t>(kMaxVectors))
    return error_at(in.place(),
                    "the vocabulary of {} entries has {} words and {} labels; the file is damaged", size,
                    words, labels);
  if (pruned >= 0)
    return error_of(Error::Kind::kUnsupported, in.place(),
                    "this is a quantized model (.ftz), which is not supported; use the .bin file");
  Vocabulary out;
  out.tokens = static_cast<uint64_t>(tokens);
  for (int32_t i = 0; i < size; ++i) {
    MAKAR_TRY(const std::string_view bytes, in.look(kMaxWordBytes + 1));
    const size_t end = bytes.find('\0');
    if (end == bytes.npos || end > kMaxWordBytes)
      return error_at(in.place(), "expected word {} of {}, with a zero byte at its end", i + 1, size);
    const std::string word(bytes.substr(0, end));
    in.take(end + 1);
    MAKAR_TRY(const auto count, read_number<int64_t>(in, "the vocabulary"));
    MAKAR_TRY(const auto type, read_number<int8_t>(in, "the vocabulary"));
    if (count < 0 || type != (i < words ? 0 : 1))
      return error_at(in.place(), "the entry {} of the vocabulary has the count {} and the type {}",
                      quote(word), count, int{type});
    if (i >= words) continue;
    if (out.words.add(word) != static_cast<uint32_t>(i))
      return error_at(in.place(), "the word {} occurs twice in the vocabulary", quote(word));
    out.counts.push_back(static_cast<uint64_t>(count));
  }
  return out;
}

// Memory grows with the bytes that are read, so a damaged header cannot allocate much.
Result<RowMatrix> read_matrix(ByteWindow& in, int64_t rows, int32_t width, std::string_view what) {
  MAKAR_TRY(const auto quantized, read_number<int8_t>(in, what));
  if (quantized != 0)
    return error_of(Error::Kind::kUnsupported, in.place(),
                    "this is a quantized model (.ftz), which is not supported; use the .bin file");
  MAKAR_TRY(const auto found, read_number<int64_t>(in, what));
  MAKAR_TRY(const auto columns, read_number<int64_t>(in, what));
  if (found != rows || columns != width)
    return error_at(in.place(), "{} should have {} rows of {}, found {} of {}; the file is damaged", what,
                    rows, width, found, columns);
  const auto size = static_cast<size_t>(width);
  RowMatrix out(0, padded(size));
  std::vector<float> values(size);
  for (int64_t i = 0; i < rows; ++i) {
    MAKAR_TRY(const std::string_view bytes, bytes_of(in, size * sizeof(float), what));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    for (const float v : values)
      if (!std::isfinite(v))
        return error_at(in.place(), "row {} of {} has a number that is not finite", i, what);
    in.take(size * sizeof(float));
    out.add_row(values.data(), size);
  }
  return out;
}

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

// If `rows` is empty, writes `count` rows of zeros.
Status write_matrix(const RowMatrix& rows, size_t count, size_t width,
                    const std::function<Status(std::string_view)>& write) {
  std::string out(1, '\0');
  put(out, static_cast<int64_t>(count)), put(out, static_cast<int64_t>(width));
  for (size_t i = 0; i < count; ++i) {
    if (rows.rows() == 0)
      out.append(width * sizeof(float), '\0');
    else
      out.append(reinterpret_cast<const char*>(rows.row(i)), width * sizeof(float));
    if (out.size() < size_t{1} << 20) continue;
    MAKAR_RETURN_IF_ERROR(write(out));
    out.clear();
  }
  return write(out);
}

}  // namespace

Result<bool> is_fasttext(ByteWindow& in) {
  MAKAR_TRY(const std::string_view bytes, in.look(sizeof(kMagic)));
  return bytes.size() >= sizeof(kMagic) && std::memcmp(bytes.data(), &kMagic, sizeof(kMagic)) == 0;
}

Result<WordVectors> read_fasttext(ByteWindow& in) {
  MAKAR_TRY(const Header h, read_header(in));
  MAKAR_TRY(Vocabulary vocabulary, read_vocabulary(in));
  SubwordVectors s;
  Word2VecOptions& o = s.options;
  o.model = h.model == 1 ? "cbow" : "skipgram", o.loss = h.loss == 1 ? "hs" : h.loss == 3 ? "softmax" : "ns";
  o.width = h.width, o.window = h.window, o.negatives = h.negatives, o.epochs = h.epochs;
  o.subsample = h.subsample, o.min_ngram = h.min_ngram, o.max_ngram = h.max_ngram, o.buckets = h.buckets;
  s.counts = std::move(vocabulary.counts), s.tokens = vocabulary.tokens, s.min_count = h.min_count;
  const auto words = static_cast<int64_t>(vocabulary.words.size());
  const double bytes = (3.0 * static_cast<double>(words) + h.buckets) *
                       static_cast<double>(padded(static_cast<size_t>(h.width)) * sizeof(float));
  if (const auto limit = static_cast<double>(memory_limit()); bytes > limit)
    return error_of(Error::Kind::kLimit, in.place(),
                    "the vectors take {:.1f} GB, but this process may use {:.1f} GB", bytes / 1e9,
                    limit / 1e9);
  MAKAR_TRY(s.rows, read_matrix(in, words + h.buckets, h.width, "the input matrix"));
  if (h.model != kSupervised) {
    MAKAR_TRY(s.output, read_matrix(in, words, h.width, "the output matrix"));
  }
  WordVectors out{std::move(vocabulary.words), static_cast<size_t>(h.width), {}};
  out.rows = RowMatrix(out.words.size(), s.rows.stride());
  std::vector<uint32_t> rows;
  uint64_t work = 0;
  for (uint32_t i = 0; i < out.words.size(); ++i) {
    rows.assign(1, i);
    add_ngram_rows(out.words.word(i), out.words.size(), o, rows);
    if ((work += rows.size() * out.width) > kMaxSummedFloats)
      return error_of(Error::Kind::kLimit, in.place(), "the words have too many character n-grams");
    add_mean(s.rows, rows, out.rows.row(i));
    if (!std::all_of(out.rows.row(i), out.rows.row(i) + out.width, [](float v) { return std::isfinite(v); }))
      return error_at(in.place(), "the vector of {} is not finite: its numbers are too large",
                      quote(out.words.word(i)));
  }
  out.subwords = std::make_shared<SubwordVectors>(std::move(s));
  return out;
}

Status write_fasttext(const WordVectors& v, const std::function<Status(std::string_view)>& write) {
  const SubwordVectors* s = v.subwords.get();
  const Word2VecOptions o = s ? s->options : Word2VecOptions();
  const auto count_of = [&](size_t i) { return s ? static_cast<int64_t>(s->counts[i]) : int64_t{1}; };
  const size_t buckets = s ? s->rows.rows() - v.words.size() : 0;
  std::string out;
  // The fields of Header after magic and version; word_ngrams is 1 and rate_updates is fastText's default.
  for (const int64_t field : {int64_t{kMagic}, int64_t{kVersion}, static_cast<int64_t>(v.width), o.window,
                              o.epochs, s ? s->min_count : 1, o.negatives, int64_t{1},
                              int64_t{o.loss == "hs"        ? 1
                                      : o.loss == "softmax" ? 3
                                                            : 2},
                              int64_t{o.model == "cbow" ? 1 : 2}, static_cast<int64_t>(buckets),
                              o.max_ngram > 0 ? o.min_ngram : 0, o.max_ngram, int64_t{100}})
    put(out, static_cast<int32_t>(field));
  put(out, o.subsample);
  put(out, static_cast<int32_t>(v.words.size())), put(out, static_cast<int32_t>(v.words.size()));
  put(out, int32_t{0}), put(out, s ? s->tokens : v.words.size()), put(out, int64_t{-1});
  for (uint32_t i = 0; i < v.words.size(); ++i) {
    if (v.words.word(i).find('\0') != std::string::npos)
      return error_at("`format` fasttext", "the word {} has a zero byte, which ends words in such files",
                      quote(v.words.word(i)));
    out += v.words.word(i);
    out += '\0';
    put(out, count_of(i)), put(out, int8_t{0});
  }
  MAKAR_RETURN_IF_ERROR(write(out));
  MAKAR_RETURN_IF_ERROR(write_matrix(s ? s->rows : v.rows, v.words.size() + buckets, v.width, write));
  return write_matrix(s ? s->output : RowMatrix(), v.words.size(), v.width, write);
}

}  // namespace makar
