#include "curate/near_duplicates.h"

#include <algorithm>
#include <numeric>

#include "base/rng.h"
#include "text/hash.h"

namespace makar {
namespace {

constexpr size_t kShingle = 5;

struct Band {
  uint64_t key;
  uint32_t document, band;
};

// h -> a h + b modulo 2^32, a odd: one permutation of 32-bit numbers per entry.
struct Permutations {
  std::array<uint32_t, kSignature> a, b;
  Permutations() {
    const Rng rng(20261117, Purpose::kInit);
    for (size_t i = 0; i < kSignature; ++i) a[i] = rng.bits(i)[0] | 1, b[i] = rng.bits(i)[1];
  }
};

uint32_t find(std::vector<uint32_t>& parent, uint32_t at) {
  while (parent[at] != at) at = parent[at] = parent[parent[at]];
  return at;
}

}  // namespace

Signature minhash(std::string_view text) {
  static const Permutations kPermutations;
  WordSplitter splitter({"words", true});
  std::vector<uint64_t> words;
  for (const std::string_view word : splitter.split(text)) {
    const auto c = static_cast<unsigned char>(word[0]);
    if (word.size() > 1 || c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'))
      words.push_back(hash_bytes(word));
  }
  Signature out;
  out.fill(~uint32_t{0});
  const auto take = [&](uint64_t hash) {
    // Permutations of the high half, which depends on all bits of the shingle.
    const auto h = static_cast<uint32_t>(fold_multiply(hash, 0x9E3779B97F4A7C15u) >> 32);
    for (size_t i = 0; i < kSignature; ++i)
      out[i] = std::min(out[i], (h * kPermutations.a[i] + kPermutations.b[i]) ^ (h >> 15));
  };
  const auto shingle = [&](size_t from, size_t count) {
    uint64_t h = count;
    for (size_t i = 0; i < count; ++i) h = fold_multiply(h ^ words[from + i], 0xE7037ED1A0B428DBu);
    return h;
  };
  if (words.size() < kShingle) {
    take(words.empty() ? hash_bytes(text) : shingle(0, words.size()));
    return out;
  }
  for (size_t at = 0; at + kShingle <= words.size(); ++at) take(shingle(at, kShingle));
  return out;
}

double similarity(const Signature& a, const Signature& b) {
  size_t same = 0;
  for (size_t i = 0; i < kSignature; ++i) same += a[i] == b[i];
  return static_cast<double>(same) / kSignature;
}

Result<NearDuplicates> NearDuplicates::create() {
  MAKAR_TRY(MappedRecords signatures, MappedRecords::create());
  MAKAR_TRY(MappedRecords bands, MappedRecords::create());
  return NearDuplicates(std::move(signatures), std::move(bands));
}

Status NearDuplicates::add(const Signature& s) {
  for (uint32_t band = 0; band < kBands; ++band) {
    uint64_t key = band + 1;
    for (size_t i = 0; i < kBandRows; ++i)
      key = fold_multiply(key ^ s[band * kBandRows + i], 0xE7037ED1A0B428DBu) ^ key << 1;
    const Band record{key, count_, band};
    MAKAR_CHECK_OK(bands_.write(&record, sizeof record));
  }
  ++count_;
  return signatures_.write(s.data(), sizeof s);
}

Result<std::vector<uint32_t>> NearDuplicates::groups(double threshold) {
  MAKAR_CHECK_OK(signatures_.map());
  MAKAR_CHECK_OK(bands_.map());
  std::vector<uint32_t> parent(count_);
  std::iota(parent.begin(), parent.end(), 0u);
  const auto bands = bands_.as<Band>();
  const auto signatures = signatures_.as<const Signature>();
  std::sort(bands.begin(), bands.end(), [](const Band& a, const Band& b) {
    return a.key != b.key ? a.key < b.key : a.document < b.document;
  });
  for (size_t from = 0; from < bands.size();) {
    size_t end = from + 1;
    while (end < bands.size() && bands[end].key == bands[from].key) ++end;
    // Each is compared with the first of its band and with the one before: linear in the size of the band.
    for (size_t i = from + 1; i < end; ++i)
      for (const size_t other : {from, i - 1}) {
        const uint32_t a = find(parent, bands[other].document), b = find(parent, bands[i].document);
        if (a != b &&
            similarity(signatures[bands[other].document], signatures[bands[i].document]) >= threshold)
          parent[std::max(a, b)] = std::min(a, b);
      }
    from = end;
  }
  for (uint32_t i = 0; i < count_; ++i) parent[i] = find(parent, i);
  return parent;
}

}  // namespace makar
