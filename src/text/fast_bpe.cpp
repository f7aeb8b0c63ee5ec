#include "text/fast_bpe.h"

#include <algorithm>

#include "text/field.h"

namespace makar {
namespace {

template <Scanner::Kind kKind, bool kOffsets>
Status encode_words(const Tokenizer::Impl& impl, std::string_view text, uint32_t base,
                    const EncodeOptions& options, Workspace& work, TokenSink& sink) {
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const Scanner scanner(end);
  WordCache& cache = impl.cache_for(options, work);
  constexpr size_t kGrowth = 4096;
  std::vector<uint32_t>& ids = sink.ids;
  size_t count = ids.size();
  ids.resize(count + kGrowth);
  uint32_t* out = ids.data();
  const auto span = [&](const char* from, const char* to) {
    while (from > begin && is_utf8_continuation(*from)) --from;
    while (to < end && is_utf8_continuation(*to)) ++to;
    sink.offsets->push_back(
        {base + static_cast<uint32_t>(from - begin), base + static_cast<uint32_t>(to - begin)});
  };
  const auto spans_of = [&](const auto& entry, const char* word) {
    const char* from = word;
    for (int i = 0; i < entry.count; ++i) {
      span(from, word + entry.ends[i]);
      from = word + entry.ends[i];
    }
  };
  const auto reserve = [&](size_t added) {
    if (count + added <= ids.size()) [[likely]]
      return;
    ids.resize(ids.size() + std::max(kGrowth + added, ids.size() / 2));
    out = ids.data();
  };
  // Scans a few words ahead, so that their cache slots are prefetched while earlier words are written.
  struct ScannedWord {
    WordCache::Key<2> key;
    const char* word;
    uint32_t size, slot;
  };
  constexpr int kAhead = 16;
  ScannedWord ahead[kAhead];
  for (const char* p = begin; p < end;) {
    if (options.work && !options.work->spend(kAhead)) {
      ids.resize(count);
      return options.work->error("text");
    }
    int words = 0;
    for (; words < kAhead && p < end; ++words) {
      ScannedWord& next = ahead[words];
      next.word = p;
      p = scanner.next<kKind>(p);
      next.size = static_cast<uint32_t>(p - next.word);
      if (next.size > WordCache::kMaxShortBytes) continue;
      next.key = WordCache::short_key(next.word, next.size, end);
      next.slot = WordCache::slot(next.key);
      cache.prefetch(next.slot);
    }
    reserve(kAhead * WordCache::kMaxLongTokens);
    for (int w = 0; w < words; ++w) {
      const char* const word = ahead[w].word;
      const size_t size = ahead[w].size;
      if (size <= WordCache::kMaxShortBytes) [[likely]] {
        if (const auto* entry = cache.find_short(ahead[w].key, ahead[w].slot)) [[likely]] {
          out[count] = entry->ids[0];
          out[count + 1] = entry->ids[1];
          out[count + 2] = entry->ids[2];
          count += entry->count;
          if constexpr (kOffsets) spans_of(*entry, word);
          continue;
        }
      }
      if (size <= WordCache::kMaxLongBytes) {
        if (const auto* entry = cache.find_long(WordCache::long_key(word, size))) {
          for (size_t i = 0; i < WordCache::kMaxLongTokens; ++i) out[count + i] = entry->ids[i];
          count += entry->count;
          if constexpr (kOffsets) spans_of(*entry, word);
          continue;
        }
      }
      Status status = impl.tokenize({word, size}, options, work);
      if (!status.ok()) {
        ids.resize(count);
        return status;
      }
      if (size <= WordCache::kMaxLongBytes) cache.put({word, size}, work.tokens);
      reserve(work.tokens.size() + kAhead * WordCache::kMaxLongTokens);
      for (const ModelToken& token : work.tokens) {
        out[count++] = token.id;
        if constexpr (kOffsets) span(word + token.begin, word + token.end);
      }
    }
  }
  ids.resize(count);
  return Done{};
}

template <Scanner::Kind kKind>
Status encode_with(const Tokenizer::Impl& impl, std::string_view text, uint32_t base,
                   const EncodeOptions& options, Workspace& work, TokenSink& sink) {
  return sink.offsets ? encode_words<kKind, true>(impl, text, base, options, work, sink)
                      : encode_words<kKind, false>(impl, text, base, options, work, sink);
}

}  // namespace

Scanner::Kind fast_bpe_kind(const Json& json) {
  const Json* type = find_field(json, "type");
  if (!type) return Scanner::Kind::kNone;
  const auto flag = [](const Json& stage, const char* key, bool fallback) {
    const Json* found = find_field(stage, key);
    return found && found->is_boolean() ? found->get<bool>() : fallback;
  };
  if (*type == "ByteLevel")
    return flag(json, "use_regex", true) && !flag(json, "add_prefix_space", true) ? Scanner::Kind::kGpt2
                                                                                  : Scanner::Kind::kNone;
  const Json* parts = find_field(json, "pretokenizers");
  if (*type != "Sequence" || !parts || !parts->is_array() || parts->size() != 2) return Scanner::Kind::kNone;
  const Json &split = (*parts)[0], &bytes = (*parts)[1];
  const Json *split_type = find_field(split, "type"), *bytes_type = find_field(bytes, "type");
  if (!split_type || *split_type != "Split" || !bytes_type || *bytes_type != "ByteLevel")
    return Scanner::Kind::kNone;
  if (flag(bytes, "add_prefix_space", true) || flag(bytes, "use_regex", true)) return Scanner::Kind::kNone;
  // These patterns match all text, so keeping the matches and isolating them is the same.
  const Json* behavior = find_field(split, "behavior");
  const bool invert = flag(split, "invert", false);
  if (!behavior || !((*behavior == "Isolated") || (*behavior == "Removed" && invert)))
    return Scanner::Kind::kNone;
  const Json* pattern = find_field(split, "pattern");
  const Json* regex = pattern ? find_field(*pattern, "Regex") : nullptr;
  return regex && regex->is_string() ? Scanner::kind_of(regex->get<std::string>()) : Scanner::Kind::kNone;
}

Status run_fast_bpe(const Tokenizer::Impl& impl, Scanner::Kind kind, std::string_view text, uint32_t base,
                    const EncodeOptions& options, Workspace& work, TokenSink& sink) {
  switch (kind) {
    case Scanner::Kind::kGpt2:
      return encode_with<Scanner::Kind::kGpt2>(impl, text, base, options, work, sink);
    case Scanner::Kind::kCl100k:
      return encode_with<Scanner::Kind::kCl100k>(impl, text, base, options, work, sink);
    case Scanner::Kind::kQwen2:
      return encode_with<Scanner::Kind::kQwen2>(impl, text, base, options, work, sink);
    case Scanner::Kind::kO200k:
      return encode_with<Scanner::Kind::kO200k>(impl, text, base, options, work, sink);
    case Scanner::Kind::kNone:
      break;
  }
  check(false, "run_fast_bpe called without a scanner");
  return Done{};
}

}  // namespace makar
