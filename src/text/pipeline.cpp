#include "text/pipeline.h"

#include <algorithm>

#include "base/quote.h"
#include "text/fast_bpe.h"
#include "text/fast_sentencepiece.h"
#include "text/fast_words.h"

namespace makar {
namespace {

constexpr size_t kMaxIdleWorkspaces = 64;
// The largest text to repair, which needs about twenty times its size in memory.
constexpr size_t kMaxRepairBytes = size_t{128} << 20;

// Makes a text valid UTF-8. Byte-level: invalid bytes become escapes; else they become U+FFFD.
AlignedText repair(std::string_view text, bool byte_level) {
  std::string out;
  std::vector<Span> spans;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    const auto put = [&](char32_t code, size_t from, size_t size) {
      const size_t before = out.size();
      append_utf8(out, code);
      spans.insert(spans.end(), out.size() - before,
                   {static_cast<uint32_t>(from), static_cast<uint32_t>(from + size)});
    };
    if (c.ok || !byte_level)
      put(c.code, at, c.size);
    else
      for (uint32_t i = 0; i < c.size; ++i) put(0xDC00 + static_cast<unsigned char>(text[at + i]), at + i, 1);
    at += c.size;
  }
  return {std::move(out), std::move(spans), 0};
}

// Turns escaped bytes back into bytes, for a model that takes bytes.
void restore_bytes(Words& words) {
  if (words.text.text().find('\xED') == std::string::npos) return;
  const std::string& s = words.text.text();
  const std::vector<Span>& spans = words.text.spans();
  std::string text;
  std::vector<Span> out_spans, ranges;
  for (const Span range : words.ranges) {
    const auto begin = static_cast<uint32_t>(text.size());
    for (size_t at = range.begin; at < range.end;) {
      const size_t from = at;
      const char32_t code = next_code(s, at);
      if (is_escaped_byte(code)) {
        text.push_back(static_cast<char>(code - 0xDC00));
        out_spans.push_back(spans[from]);
      } else {
        text.append(s, from, at - from);
        out_spans.insert(out_spans.end(), spans.begin() + from, spans.begin() + at);
      }
    }
    ranges.push_back({begin, static_cast<uint32_t>(text.size())});
  }
  words.text.replace_with(std::move(text), std::move(out_spans));
  words.ranges = std::move(ranges);
}

// Splits before every mark that follows another character.
void split_at_marks(Words& words, std::string_view mark) {
  std::vector<Span> out;
  const std::string_view text = words.text.text();
  for (Span range : words.ranges) {
    size_t from = range.begin + (text.substr(range.begin).starts_with(mark) ? mark.size() : 1);
    while (true) {
      const size_t found = text.find(mark, from);
      if (found == std::string_view::npos || found >= range.end) break;
      from = found + mark.size();
      if (found >= range.begin + mark.size() && text.substr(found - mark.size(), mark.size()) == mark)
        continue;
      out.push_back({range.begin, static_cast<uint32_t>(found)});
      range.begin = static_cast<uint32_t>(found);
    }
    out.push_back(range);
  }
  words.ranges = std::move(out);
}

}  // namespace

std::unique_ptr<Workspace> Tokenizer::Impl::take_workspace() const {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto workspace = std::move(idle_.back());
      idle_.pop_back();
      return workspace;
    }
  }
  return std::make_unique<Workspace>();
}

void Tokenizer::Impl::return_workspace(std::unique_ptr<Workspace> workspace) const {
  const std::lock_guard lock(mutex_);
  if (idle_.size() < kMaxIdleWorkspaces) idle_.push_back(std::move(workspace));
}

Status Tokenizer::Impl::run(std::string_view text, const EncodeOptions& options, TokenSink sink) const {
  if (text.empty()) return Done{};
  if (text.size() >= kTextLimit)
    return error_of(Error::Kind::kLimit, "text",
                    "has {} bytes; at most {} can be encoded at once: split it into lines", text.size(),
                    kTextLimit - 1);
  const bool valid = is_valid_utf8(text);
  if (!valid && text.size() > kMaxRepairBytes)
    return error_of(
        Error::Kind::kLimit, "text",
        "has {} bytes and is not UTF-8; at most {} of such text can be encoded at once: split it into lines",
        text.size(), kMaxRepairBytes);
  auto work = take_workspace();
  AlignedText repaired;
  if (!valid) repaired = repair(text, byte_level);
  const std::string_view view = valid ? text : std::string_view(repaired.text());

  if (options.special_text == SpecialText::kForbid) {
    std::vector<AddedVocabulary::TextOrToken> found;
    added.split(view, false, true, found);
    added.split(view, true, true, found);
    for (const auto& part : found)
      if (part.token && part.token->special)
        return error_at(
            fmt::format("byte {}", part.range.begin),
            "the text contains the special token {}; allow special tokens or treat them as plain text",
            quote(part.token->content));
  }
  const bool specials = options.special_text == SpecialText::kParse;
  std::vector<AddedVocabulary::TextOrToken> parts;
  if (added.can_match(false, specials))
    added.split(view, false, specials, parts);
  else
    parts.push_back({{0, static_cast<uint32_t>(view.size())}, nullptr});
  Status status = Done{};
  for (const auto& part : parts) {
    if (part.token) {
      sink.put(part.token->id, valid ? part.range : repaired.original(part.range.begin, part.range.end));
      continue;
    }
    const std::string_view fragment = view.substr(part.range.begin, part.range.end - part.range.begin);
    if (valid && options.fast_paths) {
      const auto handled = run_fast_path(fragment, part.range.begin, options, *work, sink);
      if (!handled.ok()) status = handled.error();
      if (!handled.ok() || *handled) {
        if (!status.ok()) break;
        continue;
      }
    }
    status = run_fragment(
        valid ? AlignedText(fragment, part.range.begin) : repaired.slice(part.range.begin, part.range.end),
        options, *work, sink);
    if (!status.ok()) break;
  }
  return_workspace(std::move(work));
  return status;
}

Result<bool> Tokenizer::Impl::run_fast_path(std::string_view text, uint32_t base,
                                            const EncodeOptions& options, Workspace& work,
                                            TokenSink& sink) const {
  if (added.can_match(true, options.special_text == SpecialText::kParse)) return false;
  if (fast_bpe != Scanner::Kind::kNone && (!normalizer || normalizer->known_unchanged(text))) {
    MAKAR_RETURN_IF_ERROR(run_fast_bpe(*this, fast_bpe, text, base, options, work, sink));
    return true;
  }
  if (fast_sentencepiece && !sink.offsets) {
    MAKAR_RETURN_IF_ERROR(run_sentencepiece(*this, text, base, options, work, sink));
    return true;
  }
  if (!fast_words) return false;
  if (fast_words->kind == FastWords::Kind::kMarked) {
    if (text.find(mark) != std::string_view::npos) return false;
    MAKAR_RETURN_IF_ERROR(run_marked(*this, text, base, options, work, sink));
    return true;
  }
  MAKAR_RETURN_IF_ERROR(
      run_bert(*this, text, base, options, work, sink, [&](std::string_view part, uint32_t at) {
        return run_fragment(AlignedText(part, at), options, work, sink);
      }));
  return true;
}

Status Tokenizer::Impl::run_parts(std::string_view text,
                                  const std::vector<AddedVocabulary::TextOrToken>& parts,
                                  const EncodeOptions& options, TokenSink sink, const IsText& is_text) const {
  auto work = take_workspace();
  Status status = Done{};
  for (const auto& part : parts) {
    const std::string_view range = text.substr(part.range.begin, part.range.end - part.range.begin);
    if (part.token)
      sink.put(part.token->id, part.range);
    else
      status = run_fragment(AlignedText(range, part.range.begin), options, *work, sink, is_text);
    if (!status.ok()) break;
  }
  return_workspace(std::move(work));
  return status;
}

Status Tokenizer::Impl::run_fragment(AlignedText text, const EncodeOptions& options, Workspace& work,
                                     TokenSink& sink, const IsText& is_text) const {
  // The stages do not count their work, so the text is charged before they run.
  const auto bytes = static_cast<int64_t>(text.text().size());
  if (options.work && (!options.work->spend(bytes / 16) || !options.work->check()))
    return options.work->error("text");
  if (normalizer && !normalizer->known_unchanged(text.text())) MAKAR_RETURN_IF_ERROR(normalizer->apply(text));
  const bool specials = options.special_text == SpecialText::kParse;
  if (!added.can_match(true, specials)) {
    Words words{std::move(text), {}};
    if (!words.text.text().empty())
      words.ranges.push_back({0, static_cast<uint32_t>(words.text.text().size())});
    MAKAR_RETURN_IF_ERROR(pre_tokenize(words));
    return run_words(words, options, work, sink);
  }
  std::vector<AddedVocabulary::TextOrToken> parts;
  added.split(text.text(), true, specials, parts);
  if (is_text)
    join_text(parts, [&](const AddedVocabulary::TextOrToken& part) {
      return is_text(*part.token, text.original(part.range.begin, part.range.end));
    });
  for (const auto& part : parts) {
    if (part.token) {
      sink.put(part.token->id, text.original(part.range.begin, part.range.end));
      continue;
    }
    Words words{text.slice(part.range.begin, part.range.end), {{0, part.range.end - part.range.begin}}};
    MAKAR_RETURN_IF_ERROR(pre_tokenize(words));
    MAKAR_RETURN_IF_ERROR(run_words(words, options, work, sink));
  }
  return Done{};
}

Status Tokenizer::Impl::pre_tokenize(Words& words) const {
  if (pre_tokenizer) MAKAR_RETURN_IF_ERROR(pre_tokenizer->apply(words));
  if (raw_bpe && words.text.changed()) restore_bytes(words);
  if (!mark.empty()) split_at_marks(words, mark);
  return Done{};
}

WordCache& Tokenizer::Impl::cache_for(const EncodeOptions& options, Workspace& work) const {
  if (!bans_special_ids(options)) return work.cache;
  if (!work.plain_cache) work.plain_cache = std::make_unique<WordCache>();
  return *work.plain_cache;
}

Status Tokenizer::Impl::tokenize(std::string_view word, const EncodeOptions& options, Workspace& work) const {
  work.tokens.clear();
  if (options.work && !options.work->spend(1 + static_cast<int64_t>(word.size() / 8)))
    return options.work->error("text");
  if (!model->deterministic())
    return model->tokenize_dropout(word, options.dropout_seed, work.tokens, options.work);
  MAKAR_RETURN_IF_ERROR(model->tokenize(word, nullptr, work.tokens, options.work));
  if (!bans_special_ids(options)) return Done{};
  for (const ModelToken& token : work.tokens) {
    if (token.id < banned.size() && banned[token.id]) {
      work.tokens.clear();
      return model->tokenize(word, &banned, work.tokens, options.work);
    }
  }
  return Done{};
}

Status Tokenizer::Impl::run_words(const Words& words, const EncodeOptions& options, Workspace& work,
                                  TokenSink& sink) const {
  const std::string& text = words.text.text();
  const char* limit = text.data() + text.size();
  WordCache* cache = &cache_for(options, work);
  const bool cached = model->can_cache_words();
  const auto emit = [&](const auto& entry, uint32_t base) {
    uint32_t at = 0;
    for (int i = 0; i < entry.count; ++i) {
      sink.put(entry.ids[i], sink.offsets ? words.text.original(base + at, base + entry.ends[i]) : Span{});
      at = entry.ends[i];
    }
  };
  for (const Span range : words.ranges) {
    if (options.work && !options.work->spend()) return options.work->error("text");
    const char* bytes = text.data() + range.begin;
    const size_t size = range.end - range.begin;
    if (cached && size <= WordCache::kMaxLongBytes && size > 0) {
      if (size <= WordCache::kMaxShortBytes) {
        if (const auto* entry = cache->find_short(WordCache::short_key(bytes, size, limit))) {
          emit(*entry, range.begin);
          continue;
        }
      }
      if (const auto* entry = cache->find_long(WordCache::long_key(bytes, size))) {
        emit(*entry, range.begin);
        continue;
      }
    }
    MAKAR_RETURN_IF_ERROR(tokenize({bytes, size}, options, work));
    if (cached && size <= WordCache::kMaxLongBytes) cache->put({bytes, size}, work.tokens);
    for (const ModelToken& token : work.tokens)
      sink.put(token.id, sink.offsets
                             ? words.text.original(range.begin + token.begin, range.begin + token.end)
                             : Span{});
  }
  return Done{};
}

Result<std::vector<Words>> Tokenizer::Impl::words(std::string_view text, const EncodeOptions& options) const {
  std::vector<Words> out;
  AlignedText aligned = is_valid_utf8(text) ? AlignedText(text, 0) : repair(text, byte_level);
  if (normalizer) MAKAR_RETURN_IF_ERROR(normalizer->apply(aligned));
  Words words{std::move(aligned), {}};
  if (!words.text.text().empty())
    words.ranges.push_back({0, static_cast<uint32_t>(words.text.text().size())});
  MAKAR_RETURN_IF_ERROR(pre_tokenize(words));
  out.push_back(std::move(words));
  return out;
}

}  // namespace makar
