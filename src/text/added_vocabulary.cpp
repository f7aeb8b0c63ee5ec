#include "text/added_vocabulary.h"

#include <algorithm>
#include <cstring>

namespace makar {
namespace {

// The code point that ends at `end`.
char32_t code_before(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && is_utf8_continuation(text[at])) --at;
  return next_code(text, at);
}

}  // namespace

void StringFinder::add(std::string_view text, uint32_t value) {
  if (text.empty()) return;
  uint32_t node = 0;
  for (const char c : text) {
    const auto label = static_cast<unsigned char>(c);
    auto& next = nodes_[node].next;
    const auto it =
        std::find_if(next.begin(), next.end(), [&](const auto& edge) { return edge.first == label; });
    if (it != next.end()) {
      node = it->second;
      continue;
    }
    const auto new_node = static_cast<uint32_t>(nodes_.size());
    next.emplace_back(label, new_node);
    nodes_.emplace_back();
    node = new_node;
  }
  nodes_[node].value = value;
  const auto head = static_cast<unsigned char>(text[0]);
  for (const auto& [label, next] : nodes_[0].next)
    if (label == head) first_[head] = next;
  only_first_byte_ = nodes_[0].next.size() == 1 ? head : -1;
}

bool StringFinder::next(std::string_view text, size_t from, Match& found) const {
  for (size_t at = from; at < text.size(); ++at) {
    if (only_first_byte_ >= 0) {
      const void* hit = std::memchr(text.data() + at, only_first_byte_, text.size() - at);
      if (!hit) return false;
      at = static_cast<size_t>(static_cast<const char*>(hit) - text.data());
    }
    uint32_t node = first_[static_cast<unsigned char>(text[at])];
    if (!node) continue;
    bool matched = false;
    for (size_t i = at + 1;; ++i) {
      if (nodes_[node].value != UINT32_MAX) {
        found = {at, i, nodes_[node].value};
        matched = true;
      }
      if (i >= text.size()) break;
      const auto label = static_cast<unsigned char>(text[i]);
      const auto& edges = nodes_[node].next;
      const auto it =
          std::find_if(edges.begin(), edges.end(), [&](const auto& edge) { return edge.first == label; });
      if (it == edges.end()) break;
      node = it->second;
    }
    if (matched) return true;
  }
  return false;
}

Status AddedVocabulary::build(std::vector<AddedToken> tokens, const Normalizer* normalizer) {
  tokens_ = std::move(tokens);
  for (uint32_t i = 0; i < tokens_.size(); ++i) {
    AddedToken& token = tokens_[i];
    if (token.content.empty()) continue;
    by_content_.add(token.content, i);
    if (token.id >= by_id_.size()) by_id_.resize(token.id + 1);
    by_id_[token.id] = i + 1;
    if (token.special) {
      if (token.id >= special_.size()) special_.resize(token.id + 1);
      special_[token.id] = true;
    }
    token.matched_text = token.content;
    if (token.normalized && normalizer) {
      AlignedText text(token.content, 0);
      MAKAR_RETURN_IF_ERROR(normalizer->apply(text));
      token.matched_text = text.text();
    }
    finders_[token.normalized][true].add(token.matched_text, i);
    if (!token.special) finders_[token.normalized][false].add(token.matched_text, i);
  }
  return Done{};
}

const AddedToken* AddedVocabulary::by_id(uint32_t id) const {
  return id < by_id_.size() && by_id_[id] ? &tokens_[by_id_[id] - 1] : nullptr;
}

const AddedToken* AddedVocabulary::by_content(std::string_view content) const {
  const uint32_t index = by_content_.find(content);
  return index == kNoId ? nullptr : &tokens_[index];
}

void AddedVocabulary::split(std::string_view text, bool normalized, bool specials,
                            std::vector<TextOrToken>& parts) const {
  const StringFinder& finder = finders_[normalized][specials];
  size_t done = 0;
  StringFinder::Match found{};
  for (size_t from = 0; finder.next(text, from, found);) {
    from = found.end;
    const AddedToken& token = tokens_[found.value];
    size_t begin = found.begin, end = found.end;
    if (token.single_word) {
      size_t after = end;
      if ((begin > 0 && is_word(code_before(text, begin))) ||
          (end < text.size() && is_word(next_code(text, after))))
        continue;
    }
    // A token inside the blanks that the previous token stripped is still found, as in the Hugging Face
    // library.
    if (token.lstrip && begin < done) {
      if (done >= end) continue;
      begin = done;
    }
    if (token.lstrip)
      while (begin > done && is_space(code_before(text, begin))) {
        --begin;
        while (begin > done && is_utf8_continuation(text[begin])) --begin;
      }
    if (token.rstrip)
      for (size_t next = end; end < text.size() && is_space(next_code(text, next));) end = next;
    if (done < begin) parts.push_back({{static_cast<uint32_t>(done), static_cast<uint32_t>(begin)}, nullptr});
    parts.push_back({{static_cast<uint32_t>(begin), static_cast<uint32_t>(end)}, &token});
    done = end;
  }
  if (done < text.size())
    parts.push_back({{static_cast<uint32_t>(done), static_cast<uint32_t>(text.size())}, nullptr});
}

}  // namespace makar
