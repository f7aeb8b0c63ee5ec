#include "lexical/arpa.h"

#include <charconv>
#include <cmath>

#include "base/file_writer.h"
#include "base/quote.h"
#include "base/utf8.h"

namespace makar {
namespace {

constexpr uint64_t kMaxNgrams = 0xFFFFFFF0;  // the index of an n-gram has 32 bits

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  return text;
}

class ArpaReader {
 public:
  explicit ArpaReader(LineReader lines) : lines_(std::move(lines)) {}

  Result<NgramModel> read() {
    MAKAR_RETURN_IF_ERROR(read_header());
    for (size_t k = 0; k < counts_.size(); ++k) MAKAR_RETURN_IF_ERROR(read_level(k));
    if (line_ != "\\end\\") return line_error("expected \\end\\");
    return NgramModel::make(std::move(words_), std::move(levels_), lines_.place());
  }

 private:
  template <class... Args>
  Error line_error(fmt::format_string<Args...> format, Args&&... args) const {
    return error_at(fmt::format("{}:{}", lines_.place(), line_number_), "{}, found {}",
                    fmt::format(format, std::forward<Args>(args)...),
                    at_end_ ? "the end of the file" : quote(line_));
  }

  // The next line that is not empty, in line_; false at the end of the file.
  Result<bool> next() {
    for (Line line;;) {
      MAKAR_TRY(const bool found, lines_.next(line));
      if (!found) return at_end_ = true, line_.clear(), false;
      line_number_ = line.number;
      if (line.too_long)
        return error_of(Error::Kind::kLimit, fmt::format("{}:{}", lines_.place(), line_number_),
                        "the line exceeds {} bytes", lines_.limit());
      line_ = trimmed(line.text);
      if (!line_.empty()) return true;
    }
  }

  Status read_header() {
    do {  // comments may come first
      MAKAR_TRY(const bool found, next());
      if (!found) return line_error("an ARPA file begins with \\data\\");
    } while (line_ != "\\data\\");
    for (;;) {
      MAKAR_TRY(const bool found, next());
      if (!found) return line_error("expected the n-grams");
      if (line_[0] == '\\') break;
      unsigned length = 0;
      uint64_t count = 0;
      const std::string_view text = line_;
      const size_t equals = text.find('=');
      if (!text.starts_with("ngram ") || equals == text.npos ||
          !parse_integer(trimmed(text.substr(6, equals - 6)), length) ||
          !parse_integer(trimmed(text.substr(equals + 1)), count) || length != counts_.size() + 1)
        return line_error("expected `ngram {}=COUNT`", counts_.size() + 1);
      if (length > kMaxOrder || count > kMaxNgrams)
        return error_of(Error::Kind::kLimit, fmt::format("{}:{}", lines_.place(), line_number_),
                        "the limits are {} words per n-gram and {} n-grams per length; found {}", kMaxOrder,
                        kMaxNgrams, quote(line_));
      counts_.push_back(count);
    }
    if (counts_.empty()) return line_error("expected `ngram 1=COUNT`");
    levels_.resize(counts_.size());
    return Done{};
  }

  template <class T>
  static bool parse_integer(std::string_view text, T& out) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return error == std::errc{} && end == text.data() + text.size();
  }
  static bool parse_float(std::string_view text, float& out) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (text == "-inf") return out = -99, true;  // SRILM's logarithm of 0
    return error == std::errc{} && end == text.data() + text.size() && std::isfinite(out);
  }
  static std::string_view take_field(std::string_view& rest) {
    rest = trimmed(rest);
    const size_t end = std::min(rest.find_first_of(" \t"), rest.size());
    const std::string_view out = rest.substr(0, end);
    rest.remove_prefix(end);
    return out;
  }

  Status read_level(size_t k) {
    if (line_ != fmt::format("\\{}-grams:", k + 1)) return line_error("expected \\{}-grams:", k + 1);
    NgramLevel& level = levels_[k];
    for (;;) {
      MAKAR_TRY(const bool found, next());
      if (!found)
        return line_error("expected {} {}-grams and \\end\\, read {}", counts_[k], k + 1,
                          level.log_prob.size());
      if (line_ == "\\end\\" || (line_[0] == '\\' && line_.ends_with("-grams:"))) break;
      if (level.log_prob.size() == counts_[k])
        return line_error("there are more than the {} {}-grams of the header", counts_[k], k + 1);
      MAKAR_RETURN_IF_ERROR(read_ngram(k, level));
    }
    if (level.log_prob.size() != counts_[k])
      return line_error("the header says {} {}-grams, there are {}", counts_[k], k + 1,
                        level.log_prob.size());
    return Done{};
  }

  Status read_ngram(size_t k, NgramLevel& level) {
    std::string_view rest = line_;
    float log_prob = 0, log_backoff = 0;
    // A probability of 1 may have been rounded to slightly more.
    if (!parse_float(take_field(rest), log_prob) || log_prob > 1e-6f)
      return line_error("expected a log-probability of at most 0 at the start of the line");
    uint32_t at = 0;
    for (size_t i = 0; i <= k; ++i) {
      const std::string_view word = take_field(rest);
      if (word.empty()) return line_error("expected {} words", k + 1);
      if (k == 0) {
        const size_t next_id = words_.size();
        if (words_.add(word) != next_id) return line_error("the word is listed twice");
        at = level.table.add(0, static_cast<uint32_t>(next_id));
        break;
      }
      const auto id = words_.find(word);
      if (!id) return line_error("{} is not a word of \\1-grams:", quote(word));
      if (i == 0) at = *id;
      if (i > 0 && i < k) {
        at = levels_[i].table.find(at, *id);
        if (at == NgramTable::kNone) return line_error("the n-gram of its first {} words is missing", i + 1);
      }
      if (i == k) {
        const size_t next_id = level.table.size();
        at = level.table.add(at, *id);
        if (at != next_id) return line_error("the n-gram is listed twice");
      }
    }
    rest = trimmed(rest);
    if (!rest.empty() && (!parse_float(take_field(rest), log_backoff) || !trimmed(rest).empty()))
      return line_error("expected a back-off weight after the words");
    level.log_prob.push_back(std::min(log_prob, 0.0f)), level.log_backoff.push_back(log_backoff);
    return Done{};
  }

  LineReader lines_;
  std::string line_;
  uint64_t line_number_ = 0;
  bool at_end_ = false;
  std::vector<uint64_t> counts_;
  NumberedWords words_;
  std::vector<NgramLevel> levels_;
};

}  // namespace

Result<NgramModel> read_arpa(LineReader lines) { return ArpaReader(std::move(lines)).read(); }

Result<NgramModel> load_arpa(const std::string& path) {
  MAKAR_TRY(auto stream, ByteStream::open(path));
  return read_arpa(LineReader(std::move(stream)));
}

Status write_arpa(const NgramModel& model, const std::function<Status(std::string_view)>& write) {
  std::string out = "\\data\\\n";
  for (int k = 1; k <= model.order(); ++k)
    out += fmt::format("ngram {}={}\n", k, model.level(k).table.size());
  std::vector<uint32_t> ids(static_cast<size_t>(model.order()));
  for (int k = 1; k <= model.order(); ++k) {
    out += fmt::format("\n\\{}-grams:\n", k);
    const NgramLevel& level = model.level(k);
    for (uint32_t i = 0; i < level.table.size(); ++i) {
      uint32_t at = i;
      for (int j = k; j >= 1; at = model.level(j).table.prefix(at), --j)
        ids[static_cast<size_t>(j - 1)] = model.level(j).table.word(at);
      out += fmt::format("{}", level.log_prob[i]);
      for (int j = 0; j < k; ++j)
        (out += j == 0 ? '\t' : ' ') += model.words().word(ids[static_cast<size_t>(j)]);
      if (k < model.order()) out += fmt::format("\t{}", level.log_backoff[i]);
      out += '\n';
      if (out.size() > size_t{1} << 20) {
        MAKAR_RETURN_IF_ERROR(write(out));
        out.clear();
      }
    }
  }
  return write(out + "\n\\end\\\n");
}

Status save_arpa(const NgramModel& model, const std::string& path) {
  MAKAR_TRY(auto file, FileWriter::open(path));
  MAKAR_RETURN_IF_ERROR(write_arpa(model, [&](std::string_view text) { return file.write(text); }));
  return file.commit();
}

}  // namespace makar
