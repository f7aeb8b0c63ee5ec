#include "text/aligned_text.h"

namespace makar {

Span AlignedText::original(size_t begin, size_t end) const {
  if (changed_) {
    if (begin < end) return {spans_[begin].begin, spans_[end - 1].end};
    const uint32_t at = begin < spans_.size() ? spans_[begin].begin
                        : spans_.empty()      ? base_
                                              : spans_.back().end;
    return {at, at};
  }
  const auto inside = [&](size_t i) { return is_utf8_continuation(text_[i]); };
  if (begin < end) {
    while (begin > 0 && inside(begin)) --begin;
    while (end < text_.size() && inside(end)) ++end;
  }
  return {base_ + static_cast<uint32_t>(begin), base_ + static_cast<uint32_t>(end)};
}

const std::vector<Span>& AlignedText::spans() {
  if (!changed_) {
    spans_.reserve(text_.size());
    for (size_t at = 0; at < text_.size();) {
      const auto from = static_cast<uint32_t>(base_ + at);
      const uint32_t size = utf8_size(text_[at]);
      for (uint32_t i = 0; i < size && at + i < text_.size(); ++i) spans_.push_back({from, from + size});
      at += size;
    }
    changed_ = true;
  }
  return spans_;
}

AlignedText AlignedText::slice(size_t begin, size_t end) const {
  const std::string_view part = std::string_view(text_).substr(begin, end - begin);
  if (!changed_) return {part, base_ + static_cast<uint32_t>(begin)};
  return {std::string(part), std::vector<Span>(spans_.begin() + begin, spans_.begin() + end),
          begin < end ? spans_[begin].begin : base_};
}

void AlignedText::replace_with(std::string text, std::vector<Span> spans) {
  text_ = std::move(text);
  spans_ = std::move(spans);
  changed_ = true;
}

void AlignedText::prepend(std::string_view prefix) {
  if (text_.empty() || prefix.empty()) return;
  std::vector<Span> new_spans(prefix.size(), original(0, utf8_size(text_[0])));
  const std::vector<Span>& old = spans();
  new_spans.insert(new_spans.end(), old.begin(), old.end());
  replace_with(std::string(prefix) + text_, std::move(new_spans));
}

Rewriter::Rewriter(AlignedText& text) : source_(text), spans_(text.spans()) {
  out_.reserve(text.text().size());
  out_spans_.reserve(text.text().size());
}

void Rewriter::advance() {
  if (at_ < source_.text().size()) at_ += utf8_size(source_.text()[at_]);
}

void Rewriter::put(char32_t code, int change) {
  Span span{source_.base(), source_.base()};
  if (change > 0) {
    if (at_ > 0) span = spans_[at_ - 1];
  } else {
    if (at_ < spans_.size())
      span = spans_[at_];
    else if (!spans_.empty())
      span = spans_.back();
    for (int i = 0; i <= -change; ++i) advance();
  }
  const size_t before = out_.size();
  append_utf8(out_, code);
  out_spans_.insert(out_spans_.end(), out_.size() - before, span);
}

void Rewriter::skip(size_t characters) {
  for (size_t i = 0; i < characters; ++i) advance();
}

void Rewriter::finish() { source_.replace_with(std::move(out_), std::move(out_spans_)); }

}  // namespace makar
