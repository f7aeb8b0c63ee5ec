// FUZZ_TARGET(NAME) { ... } defines a fuzz target on `data` and `size`. In a build with libFuzzer each target
// is a program; otherwise all register themselves, and tests/replay_corpus.cpp runs them on their corpora.
#pragma once
#include <cstddef>
#include <cstdint>

using FuzzTarget = int (*)(const uint8_t* data, size_t size);

bool register_fuzz_target(const char* name, FuzzTarget target);

#ifdef MAKAR_LIBFUZZER
#define FUZZ_TARGET(name) extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size)
#else
#define FUZZ_TARGET(name)                                                                          \
  static int fuzz_##name(const uint8_t* data, size_t size);                                        \
  [[maybe_unused]] static const bool registered_##name = register_fuzz_target(#name, fuzz_##name); \
  static int fuzz_##name(const uint8_t* data, size_t size)
#endif
