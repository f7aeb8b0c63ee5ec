// Counter-based random numbers: every draw is a pure function of (seed, purpose, step, index), so any
// position of any run can be computed directly and no draw depends on the number of threads. Philox 4x32-10
// (Salmon et al., 2011).
#pragma once
#include <array>
#include <cstdint>

namespace makar {

// The purpose of a stream of draws; streams of different purposes never overlap.
enum class Purpose : uint32_t {
  kInit = 1,
  kDropout,
  kSample,
  kShuffle,
  kMask,
  kSynthetic,
  kAttentionDropout
};

class Rng {
 public:
  constexpr Rng(uint64_t seed, Purpose purpose, uint64_t step = 0)
      : seed_(seed), purpose_(static_cast<uint32_t>(purpose)), step_(step) {}

  // Four independent 32-bit draws at `index`.
  constexpr std::array<uint32_t, 4> bits(uint64_t index) const {
    std::array<uint32_t, 4> c = {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                                 static_cast<uint32_t>(step_),
                                 purpose_ ^ static_cast<uint32_t>(step_ >> 32) << 8};
    uint32_t k0 = static_cast<uint32_t>(seed_), k1 = static_cast<uint32_t>(seed_ >> 32);
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c[0], p1 = uint64_t{0xCD9E8D57u} * c[2];
      c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
           static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return c;
  }

  // Uniform in [0, 1) with 24 bits.
  constexpr float uniform(uint64_t index) const { return static_cast<float>(bits(index)[0] >> 8) * 0x1p-24f; }
  constexpr double uniform_double(uint64_t index) const {
    const auto b = bits(index);
    return static_cast<double>((uint64_t{b[0]} << 21) ^ (b[1] >> 11)) * 0x1p-53;
  }
  // Standard normal (Box-Muller on two of the four draws).
  float normal(uint64_t index) const;

 private:
  uint64_t seed_;
  uint32_t purpose_;
  uint64_t step_;
};

}  // namespace makar
