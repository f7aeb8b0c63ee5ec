#include "curate/near_duplicates.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "base/rng.h"
#include "text/hash.h"

namespace makar {
namespace {

constexpr size_t kShingleWords = 5;

struct BandKey {
  uint64_t key;
  uint32_t document, unused = 0;
};

// One hash function of 32-bit numbers per entry: h -> (a h + b modulo 2^32) xor (h >> 15), a odd.
struct HashFunctions {
  std::array<uint32_t, kSignatureSize> a, b;
  HashFunctions() {
    const Rng rng(20261117, Purpose::kInit);
    for (size_t i = 0; i < kSignatureSize; ++i) a[i] = rng.bits(i)[0] | 1, b[i] = rng.bits(i)[1];
  }
};

// The root of a union-find tree, with path halving.
uint32_t find_root(std::vector<uint32_t>& parent, uint32_t at) {
  while (parent[at] != at) at = parent[at] = parent[parent[at]];
  return at;
}

}  // namespace

std::vector<uint64_t> shingles(std::string_view text) {
  WordSplitter splitter({"words", true});
  std::vector<uint64_t> words, out;
  for (const std::string_view word : splitter.split(text)) {
    const auto c = static_cast<unsigned char>(word[0]);
    if (word.size() > 1 || c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'))
      words.push_back(hash_bytes(word));
  }
  const auto shingle = [&](size_t from, size_t count) {
    uint64_t h = count;
    for (size_t i = 0; i < count; ++i) h = fold_multiply(h ^ words[from + i], 0xE7037ED1A0B428DBu);
    return h;
  };
  if (words.size() < kShingleWords) return {words.empty() ? hash_bytes(text) : shingle(0, words.size())};
  for (size_t at = 0; at + kShingleWords <= words.size(); ++at) out.push_back(shingle(at, kShingleWords));
  return out;
}

Signature minhash(std::string_view text) {
  static const HashFunctions kFunctions;
  Signature out;
  out.fill(~uint32_t{0});
  for (const uint64_t shingle : shingles(text)) {
    // The functions hash the high half of a product, which depends on all bits of the shingle.
    const auto h = static_cast<uint32_t>(fold_multiply(shingle, 0x9E3779B97F4A7C15u) >> 32);
    for (size_t i = 0; i < kSignatureSize; ++i)
      out[i] = std::min(out[i], (h * kFunctions.a[i] + kFunctions.b[i]) ^ (h >> 15));
  }
  return out;
}

double exact_similarity(std::string_view a, std::string_view b) {
  const auto set_of = [](std::string_view text) {
    std::vector<uint64_t> out = shingles(text);
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  };
  const auto x = set_of(a), y = set_of(b);
  std::vector<uint64_t> both;
  std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(both));
  return static_cast<double>(both.size()) / static_cast<double>(x.size() + y.size() - both.size());
}

double similarity(const Signature& a, const Signature& b) {
  size_t same = 0;
  for (size_t i = 0; i < kSignatureSize; ++i) same += a[i] == b[i];
  return static_cast<double>(same) / kSignatureSize;
}

Result<NearDuplicates> NearDuplicates::create() {
  MAKAR_TRY(MappedRecords signatures, MappedRecords::create());
  NearDuplicates out(std::move(signatures));
  for (size_t i = 0; i < kBands; ++i) {
    MAKAR_TRY(MappedRecords band, MappedRecords::create());
    out.bands_.push_back(std::move(band));
  }
  return out;
}

Status NearDuplicates::add(const Signature& s) {
  for (size_t band = 0; band < kBands; ++band) {
    uint64_t key = band + 1;
    for (size_t i = 0; i < kBandRows; ++i)
      key = fold_multiply(key ^ s[band * kBandRows + i], 0xE7037ED1A0B428DBu) ^ key << 1;
    const BandKey record{key, count_};
    MAKAR_RETURN_IF_ERROR(bands_[band].write(&record, sizeof record));
  }
  ++count_;
  return signatures_.write(s.data(), sizeof s);
}

Result<std::vector<uint32_t>> NearDuplicates::groups(double threshold, const Exact& exact) {
  constexpr double kUnsureMargin = 0.15;  // over three standard errors of an estimate by 128 entries
  MAKAR_RETURN_IF_ERROR(signatures_.map());
  const auto signatures = signatures_.as<const Signature>();
  std::vector<uint32_t> parent(count_);
  std::iota(parent.begin(), parent.end(), 0u);
  const auto join = [&](uint32_t first, uint32_t second) -> Status {
    const uint32_t a = find_root(parent, first), b = find_root(parent, second);
    if (a == b) return Done{};
    double jaccard = similarity(signatures[first], signatures[second]);
    if (jaccard < 1 && std::abs(jaccard - threshold) < kUnsureMargin) {
      MAKAR_TRY(jaccard, exact(first, second));
    }
    if (jaccard >= threshold) parent[std::max(a, b)] = std::min(a, b);
    return Done{};
  };
  for (; !bands_.empty(); bands_.pop_back()) {
    MAKAR_RETURN_IF_ERROR(bands_.back().map());
    const auto keys = bands_.back().as<BandKey>();
    std::sort(keys.begin(), keys.end(), [](const BandKey& a, const BandKey& b) {
      return a.key != b.key ? a.key < b.key : a.document < b.document;
    });
    // Each document is compared with the first and with the previous one of the same key: linear time.
    for (size_t i = 1, from = 0; i < keys.size(); ++i) {
      if (keys[i].key != keys[from].key) {
        from = i;
        continue;
      }
      MAKAR_RETURN_IF_ERROR(join(keys[from].document, keys[i].document));
      if (i - 1 > from) MAKAR_RETURN_IF_ERROR(join(keys[i - 1].document, keys[i].document));
    }
  }
  for (uint32_t i = 0; i < count_; ++i) parent[i] = find_root(parent, i);
  return parent;
}

}  // namespace makar
