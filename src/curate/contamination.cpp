#include "curate/contamination.h"

#include <algorithm>

#include "lexical/corpus.h"
#include "text/hash.h"

namespace makar {
namespace {

constexpr size_t kMinWords = 5, kMaxHashes = 200'000'000;

// The words of a text in lower case and their hashes, without single punctuation marks.
struct HashedWords {
  WordSplitter splitter{{"words", true}};
  std::vector<uint64_t> hashes;
  std::vector<std::string_view> words;
  void read(std::string_view text) {
    hashes.clear(), words.clear();
    for (const std::string_view word : splitter.split(text)) {
      const auto c = static_cast<unsigned char>(word[0]);
      if (word.size() == 1 && c < 0x80 && !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z')) continue;
      hashes.push_back(hash_bytes(word)), words.push_back(word);
    }
  }
  uint64_t hash(size_t from, size_t count) const {
    uint64_t h = count;
    for (size_t i = 0; i < count; ++i)
      h = fold_multiply(h ^ hashes[from + i], 0xE7037ED1A0B428DBu) + hashes[from + i];
    return h;
  }
};

void each_string(const Json& value, int depth, const std::function<void(const std::string&)>& use) {
  if (value.is_string()) use(value.get_ref<const std::string&>());
  if (depth < 8 && value.is_structured())
    for (const auto& item : value.items()) each_string(item.value(), depth + 1, use);
}

}  // namespace

Result<Contamination> Contamination::read(const std::vector<DataPath>& paths, int64_t words) {
  Contamination out(static_cast<size_t>(words));
  MAKAR_TRY(auto reader, RecordReader::open(paths));
  HashedWords hashed;
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record));
    if (!found) break;
    each_string(record.value, 0, [&](const std::string& text) {
      hashed.read(text);
      const size_t n = hashed.hashes.size();
      if (n < kMinWords) return;
      if (n < out.words_) {
        out.hashes_.insert(hashed.hash(0, n));
        if (std::find(out.shorter_lengths_.begin(), out.shorter_lengths_.end(), n) ==
            out.shorter_lengths_.end())
          out.shorter_lengths_.push_back(n);
        return;
      }
      for (size_t at = 0; at + out.words_ <= n; ++at) out.hashes_.insert(hashed.hash(at, out.words_));
    });
    if (out.hashes_.size() > kMaxHashes)
      return error_of(Error::Kind::kLimit, "evaluation data", "has more than {} n-grams", kMaxHashes);
  }
  if (out.hashes_.empty()) return error_at("evaluation data", "has no text of {} words or more", kMinWords);
  std::sort(out.shorter_lengths_.begin(), out.shorter_lengths_.end());
  return out;
}

std::string Contamination::shared(std::string_view text) const {
  HashedWords hashed;
  hashed.read(text);
  std::vector<size_t> lengths = shorter_lengths_;
  lengths.push_back(words_);
  for (const size_t n : lengths)
    for (size_t at = 0; at + n <= hashed.hashes.size(); ++at)
      if (hashes_.contains(hashed.hash(at, n))) {
        std::string out;
        for (size_t i = 0; i < n; ++i) (out += i > 0 ? " " : "") += hashed.words[at + i];
        return out;
      }
  return "";
}

}  // namespace makar
