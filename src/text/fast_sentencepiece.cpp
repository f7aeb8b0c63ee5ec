#include "text/fast_sentencepiece.h"

#include "text/base64.h"
#include "text/field.h"
#include "text/unicode.h"

namespace makar {
namespace {

// The normaliser stages in the order in which the SentencePiece reader writes them.
enum Stage : uint8_t { kMap, kTrim, kCollapse, kPrepend, kMarks, kTrimMarks, kUnknownStage };

Stage stage_of(const Json& json) {
  const Json* type = find_field(json, "type");
  if (!type) return kUnknownStage;
  if (*type == "Precompiled") return json.value("longest_match", false) ? kMap : kUnknownStage;
  if (*type == "Prepend") return json.value("prepend", "") == kBlankMark ? kPrepend : kUnknownStage;
  const Json* pattern = find_field(json, "pattern");
  if (*type != "Replace" || !pattern) return kUnknownStage;
  const std::string content = json.value("content", "?");
  const Json *text = find_field(*pattern, "String"), *regex = find_field(*pattern, "Regex");
  if (text) return *text == " " && content == kBlankMark ? kMarks : kUnknownStage;
  if (!regex) return kUnknownStage;
  if (*regex == "\\A +| +\\z" && content.empty()) return kTrim;
  if (*regex == " {2,}" && content == " ") return kCollapse;
  return *regex == "\u2581+\\z" && content.empty() ? kTrimMarks : kUnknownStage;
}

}  // namespace

std::optional<FastSentencePiece> FastSentencePiece::find(const Json& normalizer, const Json& pre_tokenizer,
                                                         const TokenModel& model) {
  const auto* unigram = dynamic_cast<const Unigram*>(&model);
  const Json* parts = normalizer.is_object() ? find_field(normalizer, "normalizers") : nullptr;
  if (!unigram || !unigram->sentencepiece() || !unigram->no_token_crosses(kBlankMark) || !parts ||
      !pre_tokenizer.is_null())
    return std::nullopt;
  FastSentencePiece out{unigram, {}, {}};
  std::array<bool, kUnknownStage> has{};
  int last = -1;
  for (const Json& part : *parts) {
    const Stage stage = stage_of(part);
    if (stage == kUnknownStage || stage <= last) return std::nullopt;
    has[stage] = true;
    last = stage;
    if (stage == kPrepend) out.first_only = part.value("first_only", false);
    if (stage != kMap) continue;
    auto map = CharacterMap::parse(decode_base64(part.value("precompiled_charsmap", "")).value_or(""));
    if (!map.ok()) return std::nullopt;
    out.map = std::move(*map);
  }
  if (!has[kMarks] || has[kTrim] != has[kCollapse] || has[kTrim] != has[kTrimMarks]) return std::nullopt;
  out.trims = has[kTrim];
  out.prepend = has[kPrepend];
  for (int a = 0; a < 128; ++a) {
    const char one = static_cast<char>(a);
    bool plain = !out.map.longest({&one, 1});
    for (int b = 0; b < 128 && plain; ++b) {
      const char two[] = {one, static_cast<char>(b)};
      plain = !out.map.any_starts_with({two, 2});
    }
    out.plain[static_cast<size_t>(a)] = plain;
  }
  return out;
}

std::string FastSentencePiece::normalize(std::string_view text, bool first) const {
  std::string out;
  out.reserve(text.size() + text.size() / 2 + 16);
  if (prepend && (!first_only || first)) out += kBlankMark;
  const size_t start = out.size();
  bool blank = false;  // write a blank before the next character
  const auto put = [&](std::string_view bytes) {
    for (const char c : bytes) {
      if (c == ' ') {
        if (!trims) out += kBlankMark;
        blank = trims && (blank || out.size() > start);
        continue;
      }
      if (blank) out += kBlankMark, blank = false;
      out += c;
    }
  };
  for (size_t at = 0; at < text.size();) {
    const auto ascii = [&](size_t i) {
      return i >= text.size() || static_cast<unsigned char>(text[i]) < 0x80;
    };
    size_t end = at;
    while (end < text.size() && plain[static_cast<unsigned char>(text[end])] && ascii(end + 1)) ++end;
    put(text.substr(at, end - at));
    at = end;
    if (at >= text.size()) break;
    if (const auto match = map.longest(text.substr(at))) {
      put(match->replacement);
      at += match->size;
    } else {
      const size_t from = at;
      next_code(text, at);
      put(text.substr(from, at - from));
    }
  }
  if (out.size() == start) return "";
  if (trims)
    while (out.ends_with(kBlankMark)) out.resize(out.size() - kBlankMark.size());
  return out;
}

namespace {

// The end of the word that starts at `from`: before the next mark that follows another character.
size_t word_end(std::string_view text, size_t from) {
  size_t at = from;
  while (text.substr(at).starts_with(kBlankMark)) at += kBlankMark.size();
  return std::min(text.find(kBlankMark, std::min(at + 1, text.size())), text.size());
}

}  // namespace

Status run_sentencepiece(const Tokenizer::Impl& impl, std::string_view text, uint32_t base,
                         const EncodeOptions& options, Workspace& work, TokenSink& sink) {
  const FastSentencePiece& fast = *impl.fast_sentencepiece;
  const Unigram& model = *fast.model;
  const BannedIds* banned =
      options.special_text != SpecialText::kParse && !impl.banned.empty() ? &impl.banned : nullptr;
  WordCache& cache = impl.cache_for(options, work);
  const std::string normalized = fast.normalize(text, base == 0);
  const char* const normalized_end = normalized.data() + normalized.size();
  float score = 0;
  const auto from_entry = [&](const auto& entry) {
    for (int i = 0; i < entry.count; ++i) {
      sink.ids.push_back(entry.ids[i]);
      score = model.score_after(entry.ids[i], score);
    }
    return entry.count > 0;  // an empty entry means that the segmentation depends on the score
  };
  for (size_t at = 0; at < normalized.size();) {
    const size_t end = word_end(normalized, at);
    if (options.work && !options.work->spend(1 + static_cast<int64_t>((end - at) / 16)))
      return options.work->error("text");
    const std::string_view word = std::string_view(normalized).substr(at, end - at);
    at = end;
    bool skip_cache = word.size() > WordCache::kMaxLongBytes || !model.score_allows_caching(score);
    if (!skip_cache && word.size() <= WordCache::kMaxShortBytes)
      if (const auto* entry =
              cache.find_short(WordCache::short_key(word.data(), word.size(), normalized_end))) {
        if (from_entry(*entry)) continue;
        skip_cache = true;
      }
    if (!skip_cache)
      if (const auto* entry = cache.find_long(WordCache::long_key(word.data(), word.size()))) {
        if (from_entry(*entry)) continue;
        skip_cache = true;
      }
    work.tokens.clear();
    MAKAR_RETURN_IF_ERROR(model.tokenize_after(word, banned, score, work.tokens));
    for (const ModelToken& token : work.tokens) sink.ids.push_back(token.id);
    if (skip_cache) continue;
    if (!model.segmentation_is_stable(word, banned)) work.tokens.clear();
    cache.put(word, work.tokens);
  }
  return Done{};
}

}  // namespace makar
