#include "text/fast_words.h"

#include <array>

#include "base/lower_ascii.h"
#include "text/field.h"
#include "text/unicode.h"

namespace makar {
namespace {

constexpr size_t kMarkBytes = kBlankMark.size();

bool is_type(const Json& json, const char* name) {
  const Json* type = find_field(json, "type");
  return type && *type == name;
}

// Recognises one stage of a marked normaliser; false for other stages.
bool marked_stage(const Json& stage, FastWords& out, bool& replaces) {
  if (is_type(stage, "Prepend") && stage.value("prepend", "") == kBlankMark && !replaces && !out.prepend) {
    out.prepend = true;
    out.first_only = stage.value("first_only", false);
    return true;
  }
  const Json* pattern = find_field(stage, "pattern");
  if (!is_type(stage, "Replace") || !pattern || replaces) return false;
  const Json* text = find_field(*pattern, "String");
  replaces = text && *text == " " && stage.value("content", "") == kBlankMark;
  return replaces;
}

bool is_marked(const Json& normalizer, const Json& pre, FastWords& out) {
  bool replaces = false;
  if (is_type(normalizer, "Sequence")) {
    for (const Json& part : normalizer["normalizers"])
      if (!marked_stage(part, out, replaces)) return false;
  } else if (!marked_stage(normalizer, out, replaces)) {
    return false;
  }
  if (!replaces) return false;
  if (pre.is_null()) return true;
  // Splitting at blanks has no effect: the normaliser has replaced them all.
  const Json* pattern = find_field(pre, "pattern");
  const Json* text = pattern ? find_field(*pattern, "String") : nullptr;
  return is_type(pre, "Split") && text && *text == " " && !pre.value("invert", false);
}

// The end of the text at p that merges can reach: a blank, or a boundary that no merge crosses.
const char* word_end(const char* p, const char* end, const TokenModel::Joins* joins) {
  if (!joins || p == end) {
    while (p < end && *p != ' ') ++p;
    return p;
  }
  auto previous = static_cast<unsigned char>(*p++);
  for (; p < end && *p != ' '; ++p) {
    const auto c = static_cast<unsigned char>(*p);
    if (previous < 0x80 && c < 0x80 && !(*joins)[previous][c]) return p;
    previous = c;
  }
  return p;
}

// Finds the word in the cache or runs the model; calls emit(id, begin, end) for each token.
template <class Emit>
Status each_token(const Tokenizer::Impl& impl, std::string_view word, const char* limit, WordCache& cache,
                  const EncodeOptions& options, Workspace& work, Emit emit) {
  const auto from_entry = [&](const auto& entry) {
    uint32_t at = 0;
    for (int i = 0; i < entry.count; ++i) {
      emit(entry.ids[i], at, uint32_t{entry.ends[i]});
      at = entry.ends[i];
    }
  };
  if (options.work && !options.work->spend()) return options.work->error("text");
  if (word.size() <= WordCache::kMaxShortBytes)
    if (const auto* entry = cache.find_short(WordCache::short_key(word.data(), word.size(), limit)))
      return from_entry(*entry), Done{};
  if (word.size() <= WordCache::kMaxLongBytes)
    if (const auto* entry = cache.find_long(WordCache::long_key(word.data(), word.size())))
      return from_entry(*entry), Done{};
  MAKAR_RETURN_IF_ERROR(impl.tokenize(word, options, work));
  if (word.size() <= WordCache::kMaxLongBytes) cache.put(word, work.tokens);
  for (const ModelToken& token : work.tokens) emit(token.id, token.begin, token.end);
  return Done{};
}

}  // namespace

FastWords fast_words_for(const Json& normalizer, const Json& pre, const std::string& mark) {
  FastWords out;
  if (!mark.empty() && !normalizer.is_null() && is_marked(normalizer, pre, out)) {
    out.kind = FastWords::Kind::kMarked;
  } else if (is_type(normalizer, "BertNormalizer") && is_type(pre, "BertPreTokenizer") &&
             normalizer.value("clean_text", true)) {
    out = {};
    out.kind = FastWords::Kind::kBert;
    out.lowercase = normalizer.value("lowercase", true);
  } else {
    out = {};
  }
  return out;
}

Status run_marked(const Tokenizer::Impl& impl, std::string_view text, uint32_t base,
                  const EncodeOptions& options, Workspace& work, TokenSink& sink) {
  WordCache& cache = impl.cache_for(options, work);
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const FastWords& fast = *impl.fast_words;
  size_t extra = fast.prepend && (!fast.first_only || base == 0);  // a mark before the first word
  std::string buffer;
  for (const char* p = begin; p < end;) {
    const char* const word = p;
    while (p < end && *p == ' ') ++p;
    const auto blanks = static_cast<size_t>(p - word);
    const char* const rest = p;
    p = word_end(p, end, impl.model->joins());
    buffer.clear();
    for (size_t i = 0; i < blanks + extra; ++i) buffer += kBlankMark;
    buffer.append(rest, static_cast<size_t>(p - rest));
    // Maps a buffer position to the original, where a mark is one blank of one byte.
    const size_t marks = (blanks + extra) * kMarkBytes;
    const auto first_size = static_cast<uint32_t>(utf8_size(*word));
    const auto inside = [](const char* c) { return is_utf8_continuation(*c); };
    const auto start_of = [&](uint32_t at) -> uint32_t {
      if (at < marks)
        return static_cast<uint32_t>(word - begin) +
               (at / kMarkBytes >= extra ? static_cast<uint32_t>(at / kMarkBytes - extra) : 0);
      const char* c = rest + (at - marks);
      while (c > rest && inside(c)) --c;
      return static_cast<uint32_t>(c - begin);
    };
    const auto end_of =
        [&](uint32_t at) -> uint32_t {  // end of the character that contains the byte before `at`
      if (at <= extra * kMarkBytes) return static_cast<uint32_t>(word - begin) + first_size;
      if (at <= marks)
        return static_cast<uint32_t>(word - begin) + static_cast<uint32_t>((at - 1) / kMarkBytes - extra) + 1;
      const char* c = rest + (at - marks);
      while (c < end && inside(c)) ++c;
      return static_cast<uint32_t>(c - begin);
    };
    MAKAR_RETURN_IF_ERROR(
        each_token(impl, buffer, buffer.data() + buffer.size(), cache, options, work,
                   [&](uint32_t id, uint32_t from, uint32_t to) {
                     sink.put(id, sink.offsets ? Span{base + start_of(from), base + end_of(to)} : Span{});
                   }));
    extra = 0;
  }
  return Done{};
}

namespace {

enum : uint8_t { kWordByte, kBlankByte, kPunctuationByte, kOtherByte };

constexpr std::array<uint8_t, 256> kBertBytes = [] {
  std::array<uint8_t, 256> table{};
  for (int b = 0; b < 256; ++b) {
    const bool punctuation =
        (b >= 33 && b <= 47) || (b >= 58 && b <= 64) || (b >= 91 && b <= 96) || (b >= 123 && b <= 126);
    table[b] = b == ' ' || b == '\t' || b == '\n' || b == '\r' ? kBlankByte
               : b < 32 || b >= 127                            ? kOtherByte
               : punctuation                                   ? kPunctuationByte
                                                               : kWordByte;
  }
  return table;
}();

}  // namespace

Status run_bert(const Tokenizer::Impl& impl, std::string_view text, uint32_t base,
                const EncodeOptions& options, Workspace& work, TokenSink& sink,
                const std::function<Status(std::string_view, uint32_t)>& encode_other) {
  WordCache& cache = impl.cache_for(options, work);
  const bool lower = impl.fast_words->lowercase;
  const auto kind = [](char c) { return kBertBytes[static_cast<unsigned char>(c)]; };
  std::string buffer;
  for (size_t at = 0; at < text.size();) {
    if (kind(text[at]) == kBlankByte) {
      ++at;
      continue;
    }
    size_t stop = at;
    bool plain = true;
    for (; stop < text.size() && kind(text[stop]) != kBlankByte; ++stop)
      plain = plain && kind(text[stop]) != kOtherByte;
    if (!plain) {
      MAKAR_RETURN_IF_ERROR(encode_other(text.substr(at, stop - at), base + static_cast<uint32_t>(at)));
      at = stop;
      continue;
    }
    while (at < stop) {
      size_t end = at + 1;
      if (kind(text[at]) == kWordByte)
        while (end < stop && kind(text[end]) == kWordByte) ++end;
      buffer.assign(text, at, end - at);
      if (lower)
        for (char& c : buffer) c = lower_ascii(c);
      const auto from = static_cast<uint32_t>(base + at);
      MAKAR_RETURN_IF_ERROR(each_token(impl, buffer, buffer.data() + buffer.size(), cache, options, work,
                                       [&](uint32_t id, uint32_t b, uint32_t e) {
                                         sink.put(id, {from + b, from + e});
                                       }));
      at = end;
    }
  }
  return Done{};
}

}  // namespace makar
