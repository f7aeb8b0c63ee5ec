// All normalisers except the precompiled character map (character_map.cpp): one class each, and the table of
// kinds at the end.
#include "text/normalizer.h"

#include "text/byte_alphabet.h"
#include "text/character_map.h"
#include "text/component.h"
#include "text/normal_form.h"
#include "text/regex.h"
#include "text/unicode8.h"

namespace makar {
namespace {

using NormalizerResult = ComponentResult<Normalizer>;

void apply_form(AlignedText& text, NormalForm form) {
  if (known_in_form(text.text(), form)) return;
  const auto normalized = normal_form(text.text(), form);
  Rewriter out(text);
  for (const NormalizedChar& c : normalized) out.put(c.code, c.change);
  out.finish();
}

template <class Keep>
void filter(AlignedText& text, Keep keep) {
  const std::u32string codes = code_points(text.text());
  Rewriter out(text);
  size_t i = 0;
  while (i < codes.size() && !keep(codes[i])) ++i;
  if (i < codes.size()) out.skip(i);
  while (i < codes.size()) {
    size_t next = i + 1;
    while (next < codes.size() && !keep(codes[next])) ++next;
    out.put(codes[i], -static_cast<int>(next - i - 1));
    i = next;
  }
  out.finish();
}

void lower_case(AlignedText& text) {
  const std::u32string codes = code_points(text.text());
  Rewriter out(text);
  for (const char32_t c : codes) {
    if (c < 0x80) {
      out.put(c >= 'A' && c <= 'Z' ? c + 32 : c, 0);
      continue;
    }
    int change = 0;
    for (const char32_t l : lowercase(c)) out.put(l, change), change = 1;
  }
  out.finish();
}

class Form : public Normalizer {
 public:
  explicit Form(NormalForm form) : form_(form) {}
  Status apply(AlignedText& text) const override { return apply_form(text, form_), Done{}; }
  bool known_unchanged(std::string_view text) const override { return known_in_form(text, form_); }

 private:
  NormalForm form_;
};

class Lowercase : public Normalizer {
 public:
  Status apply(AlignedText& text) const override { return lower_case(text), Done{}; }
};

class StripAccents : public Normalizer {
 public:
  Status apply(AlignedText& text) const override {
    filter(text, [](char32_t c) { return c < 0x300 || !in(c, kMark); });
    return Done{};
  }
  bool known_unchanged(std::string_view text) const override { return is_ascii(text); }
};

class Nmt : public Normalizer {
 public:
  Status apply(AlignedText& text) const override {
    filter(text, [](char32_t c) {
      return !((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
               c == 0x9F);
    });
    const std::u32string codes = code_points(text.text());
    Rewriter out(text);
    for (const char32_t c : codes) {
      const bool blank = c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 ||
                         (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                         c == 0xFEFF || c == 0xFFFD;
      out.put(blank ? U' ' : c, 0);
    }
    return out.finish(), Done{};
  }
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  Status apply(AlignedText& text) const override {
    const std::string& s = text.text();
    size_t begin = 0, end = 0;
    bool found = false;
    for (size_t at = 0; at < s.size();) {
      const size_t from = at;
      if (is_space(next_code(s, at))) continue;
      if (!found) begin = from, found = true;
      end = at;
    }
    if (!found) begin = end = 0;
    AlignedText stripped = text.slice(left_ ? begin : 0, right_ ? end : found || !left_ ? s.size() : 0);
    text = std::move(stripped);
    return Done{};
  }

 private:
  bool left_, right_;
};

class Prepend : public Normalizer {
 public:
  Prepend(std::string what, bool first_only) : what_(std::move(what)), first_only_(first_only) {}
  Status apply(AlignedText& text) const override {
    if (!first_only_ || text.base() == 0) text.prepend(what_);
    return Done{};
  }

 private:
  std::string what_;
  bool first_only_;  // only at the start of the whole text, as SentencePiece does
};

class Replace : public Normalizer {
 public:
  Replace(Regex pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}
  Status apply(AlignedText& text) const override {
    std::vector<Span> matches;
    MAKAR_RETURN_IF_ERROR(pattern_.find_all(text.text(), matches));
    if (matches.empty()) return Done{};
    const std::vector<Span>& spans = text.spans();
    const std::string& s = text.text();
    std::string out;
    std::vector<Span> out_spans;
    uint32_t at = 0;
    // Several stages that each double the text would exhaust memory: bound it by the size of the original.
    const size_t limit = (size_t{64} << 20) + size_t{16} * (text.original(0, s.size()).end - text.base());
    for (const Span match : matches) {
      if (out.size() + content_.size() > limit)
        return error_of(Error::Kind::kLimit, "Replace", "the normalised text exceeds {} bytes", limit);
      out.append(s, at, match.begin - at);
      out_spans.insert(out_spans.end(), spans.begin() + at, spans.begin() + match.begin);
      const Span span = match.end == 0 ? Span{text.base(), text.base()} : spans[match.end - 1];
      out += content_;
      out_spans.insert(out_spans.end(), content_.size(), span);
      at = match.end;
    }
    out.append(s, at);
    out_spans.insert(out_spans.end(), spans.begin() + at, spans.end());
    return text.replace_with(std::move(out), std::move(out_spans)), Done{};
  }

 private:
  Regex pattern_;
  std::string content_;
};

class ByteLevel : public Normalizer {
 public:
  Status apply(AlignedText& text) const override { return to_byte_alphabet(text), Done{}; }
};

class Bert : public Normalizer {
 public:
  Bert(bool clean, bool chinese, bool strip, bool lowercase)
      : clean_(clean), chinese_(chinese), strip_(strip), lowercase_(lowercase) {}
  Status apply(AlignedText& text) const override {
    if (clean_) clean(text);
    if (chinese_) isolate_chinese(text);
    if (strip_) {
      apply_form(text, NormalForm::kNfd);
      if (!is_ascii(text.text()))
        filter(text, [](char32_t c) {
          return c < 0x300 || category(c) != Category::kMn || is_newer_than_unicode8(c);
        });
    }
    if (lowercase_) lower_case(text);
    return Done{};
  }

 private:
  static void clean(AlignedText& text) {
    filter(text, [](char32_t c) {
      if (c == '\t' || c == '\n' || c == '\r') return true;
      return !(
          c == 0 || c == kReplacement ||
          (in(c, detail::mask({Category::kCc, Category::kCf, Category::kCo})) && !is_newer_than_unicode8(c)));
    });
    const std::u32string codes = code_points(text.text());
    Rewriter out(text);
    for (const char32_t c : codes) out.put(is_space(c) ? U' ' : c, 0);
    out.finish();
  }
  static void isolate_chinese(AlignedText& text) {
    if (is_ascii(text.text())) return;
    const std::u32string codes = code_points(text.text());
    Rewriter out(text);
    for (const char32_t c : codes) {
      const bool chinese = (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
                           (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
                           (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
                           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
      if (chinese)
        out.put(U' ', 0), out.put(c, 1), out.put(U' ', 1);
      else
        out.put(c, 0);
    }
    out.finish();
  }
  bool clean_, chinese_, strip_, lowercase_;
};

class Sequence : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<const Normalizer>> parts) : parts_(std::move(parts)) {}
  Status apply(AlignedText& text) const override {
    for (const auto& part : parts_) MAKAR_RETURN_IF_ERROR(part->apply(text));
    return Done{};
  }
  bool known_unchanged(std::string_view text) const override {
    for (const auto& part : parts_)
      if (!part->known_unchanged(text)) return false;
    return true;
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> parts_;
};

template <class T, class... Args>
NormalizerResult make(Args&&... args) {
  return NormalizerResult(std::unique_ptr<const Normalizer>(new T(std::forward<Args>(args)...)));
}

NormalizerResult make_bert(const Json& json) {
  MAKAR_TRY(const bool clean, bool_field(json, "clean_text", true));
  MAKAR_TRY(const bool chinese, bool_field(json, "handle_chinese_chars", true));
  MAKAR_TRY(const bool lowercase, bool_field(json, "lowercase", true));
  MAKAR_TRY(const bool strip, bool_field(json, "strip_accents", lowercase));
  return make<Bert>(clean, chinese, strip, lowercase);
}

NormalizerResult make_strip(const Json& json) {
  MAKAR_TRY(const bool left, bool_field(json, "strip_left", true));
  MAKAR_TRY(const bool right, bool_field(json, "strip_right", true));
  return make<Strip>(left, right);
}

NormalizerResult make_prepend(const Json& json) {
  MAKAR_TRY(std::string what, string_field(json, "prepend"));
  MAKAR_TRY(const bool first_only, bool_field(json, "first_only", false));
  return make<Prepend>(std::move(what), first_only);
}

NormalizerResult make_replace(const Json& json) {
  MAKAR_TRY(Regex pattern, pattern_field(json));
  MAKAR_TRY(std::string content, string_field(json, "content"));
  return make<Replace>(std::move(pattern), std::move(content));
}

NormalizerResult make_sequence(const Json& json) {
  MAKAR_TRY(auto parts, make_components<Normalizer>(json, "normalizers"));
  return make<Sequence>(std::move(parts));
}

const ComponentKind<Normalizer> kKinds[] = {
    {"NFC", [](const Json&) { return make<Form>(NormalForm::kNfc); }},
    {"NFD", [](const Json&) { return make<Form>(NormalForm::kNfd); }},
    {"NFKC", [](const Json&) { return make<Form>(NormalForm::kNfkc); }},
    {"NFKD", [](const Json&) { return make<Form>(NormalForm::kNfkd); }},
    {"Lowercase", [](const Json&) { return make<Lowercase>(); }},
    {"StripAccents", [](const Json&) { return make<StripAccents>(); }},
    {"Nmt", [](const Json&) { return make<Nmt>(); }},
    {"ByteLevel", [](const Json&) { return make<ByteLevel>(); }},
    {"Strip", make_strip},
    {"Prepend", make_prepend},
    {"Replace", make_replace},
    {"BertNormalizer", make_bert},
    {"Precompiled", make_character_map},
    {"Sequence", make_sequence},
};

}  // namespace

NormalizerResult Normalizer::from_json(const Json& json) {
  return make_component(json, "normalizer", kKinds);
}

}  // namespace makar
