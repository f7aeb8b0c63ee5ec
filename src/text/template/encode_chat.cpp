#include "text/template/encode_chat.h"

#include <algorithm>
#include <set>

#include "text/pipeline.h"
#include "text/template/traced.h"

namespace makar {
namespace {

// Whether an added token marks roles or turns in this template: it has the form "<|...|>", or it occurs in
// the template's source and is neither a word nor whitespace (some vocabularies have whitespace runs or HTML
// tags as added tokens for ordinary text).
bool is_role_marker(const AddedToken& token, const std::string& source) {
  const std::string& text = token.content;
  const bool pipes = text.size() > 4 && text.starts_with("<|") && text.ends_with("|>");
  const bool fullwidth_pipes = text.starts_with("<\uFF5C") && text.ends_with("\uFF5C>");
  if (pipes || fullwidth_pipes) return true;
  const auto punctuation = [](unsigned char c) { return c > ' ' && c < 0x7f && !std::isalnum(c); };
  return text.size() >= 3 && std::any_of(text.begin(), text.end(), punctuation) &&
         source.find(text) != std::string::npos;
}

}  // namespace

ChatEncoder::ChatEncoder(Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {
  for (const AddedToken& token : tokenizer_.added_tokens()) {
    if (!token.special || token.content.empty()) continue;
    finder_.add(token.content, static_cast<uint32_t>(control_tokens_.size()));
    control_tokens_.push_back(token);
  }
}

Result<ChatEncoding> ChatEncoder::encode(const ChatRendering& rendering, WorkBudget* work) const {
  const std::string text = rendering.text();
  if (text.size() >= Tokenizer::kTextLimit)
    return error_of(Error::Kind::kLimit, "rendering", "has {} bytes; the limit is {}", text.size(),
                    Tokenizer::kTextLimit - 1);
  using TextOrToken = AddedVocabulary::TextOrToken;
  // Find control tokens in each run of template text.
  std::vector<TextOrToken> control;
  size_t begin = 0, at = 0;
  for (size_t i = 0; i < rendering.segments.size(); ++i) {
    at += rendering.segments[i].text.size();
    if (rendering.segments[i].content) {
      begin = at;
      continue;
    }
    if (i + 1 < rendering.segments.size() && !rendering.segments[i + 1].content)
      continue;  // the run continues in the next segment
    const std::string_view run = std::string_view(text).substr(begin, at - begin);
    StringFinder::Match found;
    for (size_t from = 0; !finder_.empty() && finder_.next(run, from, found); from = found.end) {
      const AddedToken& token = control_tokens_[found.value];
      // lstrip and rstrip include whitespace around the token, but only if it comes from the template.
      const size_t left =
          token.lstrip ? from + jinja::strip_range(run.substr(from, found.begin - from), false, true).end
                       : found.begin;
      const size_t right =
          token.rstrip ? found.end + jinja::strip_range(run.substr(found.end), true, false).begin : found.end;
      control.push_back(
          {{static_cast<uint32_t>(begin + left), static_cast<uint32_t>(begin + right)}, &token});
      found.end = right;
    }
    begin = at;
  }
  // Byte ranges from messages other than the assistant's: role markers in them are plain text.
  std::vector<Span> from_messages;
  at = 0;
  for (const ChatSegment& s : rendering.segments) {
    if (s.content && !s.reply)
      from_messages.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(at + s.text.size())});
    at += s.text.size();
  }
  std::set<uint32_t> role_markers;
  for (const AddedToken& token : tokenizer_.added_tokens())
    if (!token.special && is_role_marker(token, rendering.source)) role_markers.insert(token.id);
  const auto is_text = [&](const AddedToken& token, Span bytes) {
    if (!role_markers.contains(token.id)) return false;
    const auto first = std::partition_point(from_messages.begin(), from_messages.end(),
                                            [&](Span span) { return span.end <= bytes.begin; });
    return first != from_messages.end() && first->begin < bytes.end;
  };
  // The text between control tokens, split at added tokens that are not special.
  const Tokenizer::Impl& impl = tokenizer_.impl();
  std::vector<TextOrToken> parts, text_parts;
  const auto put_text = [&](uint32_t from, uint32_t to) {
    if (from >= to) return;
    if (!impl.added.can_match(false, false)) return parts.push_back({{from, to}, nullptr});
    text_parts.clear();
    impl.added.split(std::string_view(text).substr(from, to - from), false, false, text_parts);
    for (TextOrToken& part : text_parts) part.range.begin += from, part.range.end += from;
    join_text(text_parts, [&](const TextOrToken& part) { return is_text(*part.token, part.range); });
    parts.insert(parts.end(), text_parts.begin(), text_parts.end());
  };
  uint32_t done = 0;
  for (const TextOrToken& token : control) {
    put_text(done, token.range.begin);
    parts.push_back(token);
    done = token.range.end;
  }
  put_text(done, static_cast<uint32_t>(text.size()));

  ChatEncoding out;
  EncodeOptions options;
  options.special_text = SpecialText::kPlain, options.work = work;
  MAKAR_RETURN_IF_ERROR(impl.run_parts(text, parts, options, {out.ids, &out.offsets}, is_text));
  // Mark tokens that overlap an assistant segment.
  out.assistant.assign(out.ids.size(), 0);
  size_t segment_begin = 0, first = 0;
  for (const ChatSegment& s : rendering.segments) {
    const size_t segment_end = segment_begin + s.text.size();
    while (first < out.ids.size() && out.offsets[first].end <= segment_begin) ++first;
    if (s.assistant)
      for (size_t i = first; i < out.ids.size() && out.offsets[i].begin < segment_end; ++i)
        out.assistant[i] |= out.offsets[i].end > segment_begin;
    segment_begin = segment_end;
  }
  return out;
}

}  // namespace makar
