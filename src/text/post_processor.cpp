// All post-processors: one class each, and the table of kinds at the end.
#include "text/post_processor.h"

#include <algorithm>
#include <map>

#include "text/component.h"
#include "text/unicode.h"

namespace makar {

void append(Encoding& encoding, const Encoding& other) {
  const auto join = [](auto& a, const auto& b) { a.insert(a.end(), b.begin(), b.end()); };
  join(encoding.ids, other.ids);
  join(encoding.offsets, other.offsets);
  join(encoding.type_ids, other.type_ids);
  join(encoding.sequence_ids, other.sequence_ids);
  join(encoding.special_mask, other.special_mask);
  join(encoding.attention_mask, other.attention_mask);
}

namespace {

using PostProcessorResult = ComponentResult<PostProcessor>;

Encoding special_tokens(const std::vector<uint32_t>& ids, uint8_t type, bool offsets) {
  Encoding e;
  e.ids = ids;
  if (offsets) e.offsets.assign(ids.size(), {});
  e.type_ids.assign(ids.size(), type);
  e.sequence_ids.assign(ids.size(), 0);
  e.special_mask.assign(ids.size(), 1);
  e.attention_mask.assign(ids.size(), 1);
  return e;
}

// Removes the blanks at both ends of each token from its offsets. The blanks are counted in the text of the
// token and removed from the original character by character.
void trim(Encoding& encoding, const PostProcessor::Texts& texts, bool prefix_space,
          const PostProcessor::TokenOf& token_of) {
  // U+0120: the blank of the byte alphabet.
  const auto blank = [](char32_t c) { return c == 0x120 || is_space(c); };
  const auto inside = [](std::string_view text, uint32_t at) {
    return at < text.size() && is_utf8_continuation(text[at]);
  };
  for (size_t i = 0; i < encoding.offsets.size(); ++i) {
    const std::string_view text = texts[encoding.sequence_ids[i]];
    Span& span = encoding.offsets[i];
    const std::u32string token =
        code_points(token_of(encoding.ids[i], text.substr(span.begin, span.end - span.begin)));
    auto lead = std::find_if_not(token.begin(), token.end(), blank) - token.begin();
    auto trail = std::find_if_not(token.rbegin(), token.rend(), blank) - token.rbegin();
    if ((i == 0 || span.begin == 0) && prefix_space && lead == 1) lead = 0;
    for (; lead > 0 && span.begin < span.end; --lead) {
      ++span.begin;
      while (span.begin < span.end && inside(text, span.begin)) ++span.begin;
    }
    uint32_t end = span.end;
    for (; trail > 0 && end > 0; --trail) {
      --end;
      while (end > 0 && inside(text, end)) --end;
    }
    if (trail == 0) span.end = std::max(end, span.begin);
  }
}

class ByteLevel : public PostProcessor {
 public:
  ByteLevel(bool prefix_space, bool trims, TokenOf token_of)
      : prefix_space_(prefix_space), trims_(trims), token_of_(std::move(token_of)) {}
  size_t added_count(bool) const override { return 0; }
  void apply(std::vector<Encoding>& parts, const Texts& texts, bool) const override {
    if (!trims_) return;
    for (Encoding& part : parts) trim(part, texts, prefix_space_, token_of_);
  }

 private:
  bool prefix_space_, trims_;
  TokenOf token_of_;
};

class Template : public PostProcessor {
 public:
  struct Item {
    int sequence = -1;  // 0 or 1, or -1 for special tokens
    std::vector<uint32_t> ids;
    uint8_t type = 0;
  };
  Template(std::vector<Item> single, std::vector<Item> pair)
      : single_(std::move(single)), pair_(std::move(pair)) {}
  size_t added_count(bool pair) const override {
    size_t count = 0;
    for (const Item& item : pair ? pair_ : single_) count += item.sequence < 0 ? item.ids.size() : 0;
    return count;
  }
  void apply(std::vector<Encoding>& parts, const Texts&, bool add_special) const override {
    const bool offsets = std::any_of(parts.begin(), parts.end(),
                                     [](const Encoding& e) { return e.offsets.size() == e.ids.size(); });
    std::vector<Encoding> out;
    for (const Item& item : parts.size() == 2 ? pair_ : single_) {
      if (item.sequence >= 0) {
        if (static_cast<size_t>(item.sequence) >= parts.size()) continue;
        Encoding part = parts[item.sequence];
        part.type_ids.assign(part.ids.size(), item.type);
        out.push_back(std::move(part));
      } else if (add_special) {
        out.push_back(special_tokens(item.ids, item.type, offsets));
      }
    }
    parts = std::move(out);
  }

 private:
  std::vector<Item> single_, pair_;
};

// [CLS] a [SEP] b [SEP], and RoBERTa's <s> a </s> </s> b </s> with type 0 throughout.
class Bert : public PostProcessor {
 public:
  Bert(uint32_t cls, uint32_t sep, bool roberta, std::unique_ptr<const PostProcessor> trimmer)
      : cls_(cls), sep_(sep), roberta_(roberta), trimmer_(std::move(trimmer)) {}
  size_t added_count(bool pair) const override { return pair ? (roberta_ ? 4 : 3) : 2; }
  void apply(std::vector<Encoding>& parts, const Texts& texts, bool add_special) const override {
    if (trimmer_) trimmer_->apply(parts, texts, add_special);
    for (size_t i = 0; i < parts.size(); ++i) {
      const uint8_t type = i == 1 && !roberta_ ? 1 : 0;
      Encoding& e = parts[i];
      if (roberta_ || add_special) e.type_ids.assign(e.ids.size(), type);
      if (!add_special) continue;
      const bool offsets = e.offsets.size() == e.ids.size();
      std::vector<uint32_t> before;
      if (i == 0)
        before = {cls_};
      else if (roberta_)
        before = {sep_};
      Encoding out = special_tokens(before, type, offsets);
      append(out, e);
      append(out, special_tokens({sep_}, type, offsets));
      e = std::move(out);
    }
  }

 private:
  uint32_t cls_, sep_;
  bool roberta_;
  std::unique_ptr<const PostProcessor> trimmer_;
};

class Sequence : public PostProcessor {
 public:
  explicit Sequence(std::vector<std::unique_ptr<const PostProcessor>> parts) : parts_(std::move(parts)) {}
  size_t added_count(bool pair) const override {
    size_t count = 0;
    for (const auto& part : parts_) count += part->added_count(pair);
    return count;
  }
  void apply(std::vector<Encoding>& encodings, const Texts& texts, bool add_special) const override {
    for (const auto& part : parts_) part->apply(encodings, texts, add_special);
  }

 private:
  std::vector<std::unique_ptr<const PostProcessor>> parts_;
};

template <class T, class... Args>
PostProcessorResult make(Args&&... args) {
  return PostProcessorResult(std::unique_ptr<const PostProcessor>(new T(std::forward<Args>(args)...)));
}

PostProcessorResult make_byte_level(const Json& json, const PostProcessor::TokenOf& token_of) {
  MAKAR_TRY(const bool prefix, bool_field(json, "add_prefix_space", true));
  MAKAR_TRY(const bool trims, bool_field(json, "trim_offsets", true));
  return make<ByteLevel>(prefix, trims, token_of);
}

Result<uint32_t> pair_id(const Json& json, const char* key) {
  const Json* pair = find_field(json, key);
  if (!pair || !pair->is_array() || pair->size() != 2 || !(*pair)[1].is_number_unsigned())
    return wrong_field(json, key, "[token, id]");
  return (*pair)[1].get<uint32_t>();
}

PostProcessorResult make_bert(const Json& json, const PostProcessor::TokenOf&) {
  MAKAR_TRY(const uint32_t cls, pair_id(json, "cls"));
  MAKAR_TRY(const uint32_t sep, pair_id(json, "sep"));
  return make<Bert>(cls, sep, false, nullptr);
}

PostProcessorResult make_roberta(const Json& json, const PostProcessor::TokenOf& token_of) {
  MAKAR_TRY(const uint32_t cls, pair_id(json, "cls"));
  MAKAR_TRY(const uint32_t sep, pair_id(json, "sep"));
  MAKAR_TRY(auto trimmer, make_byte_level(json, token_of));
  return make<Bert>(cls, sep, true, std::move(trimmer));
}

Result<std::vector<Template::Item>> template_items(const Json& json, const char* key) {
  std::vector<Template::Item> items;
  if (!find_field(json, key)) return items;
  MAKAR_TRY(const Json* list, list_field(json, key));
  const Json* specials = find_field(json, "special_tokens");
  for (const Json& piece : *list) {
    Template::Item item;
    const Json* sequence = find_field(piece, "Sequence");
    const Json* special = find_field(piece, "SpecialToken");
    if (!sequence && !special)
      return error_at(key, "expected Sequence or SpecialToken, found {}", piece.dump().substr(0, 80));
    const Json& body = sequence ? *sequence : *special;
    MAKAR_TRY(const std::string id, string_field(body, "id"));
    MAKAR_TRY(const uint64_t type, count_field(body, "type_id", 0));
    if (type > 255) return error_at(key, "type_id is {}; the maximum is 255", type);
    item.type = static_cast<uint8_t>(type);
    if (sequence) {
      if (id != "A" && id != "B") return error_at(key, "expected sequence A or B, found {}", quote(id));
      item.sequence = id == "B";
    } else {
      const Json* entry = specials ? find_field(*specials, id.c_str()) : nullptr;
      const Json* ids = entry ? find_field(*entry, "ids") : nullptr;
      if (!ids || !ids->is_array()) return error_at(key, "special_tokens has no ids for {}", quote(id));
      for (const Json& value : *ids) {
        if (!value.is_number_unsigned() || value.get<uint64_t>() >= UINT32_MAX)
          return error_at(key, "special_tokens: {} has an id that is not a 32-bit number", quote(id));
        item.ids.push_back(value.get<uint32_t>());
      }
    }
    items.push_back(std::move(item));
  }
  return items;
}

PostProcessorResult make_template(const Json& json, const PostProcessor::TokenOf&) {
  MAKAR_TRY(auto single, template_items(json, "single"));
  MAKAR_TRY(auto pair, template_items(json, "pair"));
  return make<Template>(std::move(single), std::move(pair));
}

PostProcessorResult make_sequence(const Json& json, const PostProcessor::TokenOf& token_of) {
  MAKAR_TRY(auto parts, make_components<PostProcessor>(json, "processors", token_of));
  return make<Sequence>(std::move(parts));
}

const ComponentKind<PostProcessor, const PostProcessor::TokenOf&> kKinds[] = {
    {"ByteLevel", make_byte_level},      {"TemplateProcessing", make_template}, {"BertProcessing", make_bert},
    {"RobertaProcessing", make_roberta}, {"Sequence", make_sequence},
};

}  // namespace

PostProcessorResult PostProcessor::from_json(const Json& json, const TokenOf& token_of) {
  return make_component(json, "post_processor", kKinds, token_of);
}

}  // namespace makar
