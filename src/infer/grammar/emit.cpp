#include "infer/grammar/emit.h"

#include <map>

#include "base/utf8.h"

namespace makar::grammar {
namespace {

struct ByteRange {
  uint8_t low, high;
  auto operator<=>(const ByteRange&) const = default;
};
using ByteSequence = std::vector<ByteRange>;

// Converts a range of code points to sequences of byte ranges. Splits it where the encoded length changes and
// where a leading byte does not cover all continuations.
void utf8_sequences(uint32_t low, uint32_t high, std::vector<ByteSequence>& out) {
  for (const uint32_t border : {0x80u, 0x800u, 0x10000u})
    if (low < border && border <= high) {
      utf8_sequences(low, border - 1, out);
      return utf8_sequences(border, high, out);
    }
  if (high >= 0x80)
    for (int i = 1; i < 4; ++i) {
      const uint32_t mask = (1u << (6 * i)) - 1;
      if ((low & ~mask) == (high & ~mask)) break;
      if ((low & mask) != 0) {
        utf8_sequences(low, low | mask, out);
        return utf8_sequences((low | mask) + 1, high, out);
      }
      if ((high & mask) != mask) {
        utf8_sequences(low, (high & ~mask) - 1, out);
        return utf8_sequences(high & ~mask, high, out);
      }
    }
  const std::string from = utf8(low), to = utf8(high);
  ByteSequence bytes;
  for (size_t i = 0; i < from.size(); ++i)
    bytes.push_back({static_cast<uint8_t>(from[i]), static_cast<uint8_t>(to[i])});
  out.push_back(std::move(bytes));
}

class Emitter {
 public:
  Emitter(RawGraph& graph, const Limits& limits, WorkBudget& work)
      : g_(graph), limits_(limits), work_(work) {}

  bool limit_reached() const {
    return g_.nodes.size() > limits_.nodes || edges_ > limits_.edges || work_.stopped();
  }
  int32_t node() {
    g_.nodes.emplace_back();
    return static_cast<int32_t>(g_.nodes.size()) - 1;
  }

  void emit(const Expr& e, int32_t from, int32_t to) {
    if (limit_reached() || !work_.spend()) return;
    switch (e.kind) {
      case Expr::Kind::kLiteral:
        return emit_literal(e.literal, from, to);
      case Expr::Kind::kCharacter:
        return emit_character(e.characters, from, to);
      case Expr::Kind::kSequence:
        return emit_sequence(e.parts, from, to);
      case Expr::Kind::kChoice:
        for (const ExprPtr& part : e.parts) emit(*part, from, to);
        return;
      case Expr::Kind::kRepeat:
        return emit_repeat(e, from, to);
      case Expr::Kind::kRule:
        ++edges_;
        g_.nodes[at(from)].calls.push_back({e.rule, to});
    }
  }

 private:
  static size_t at(int32_t node) { return static_cast<size_t>(node); }
  void empty(int32_t from, int32_t to) {
    ++edges_;
    g_.nodes[at(from)].empty.push_back(to);
  }
  void edge(int32_t from, ByteRange r, int32_t to) {
    ++edges_;
    g_.nodes[at(from)].edges.push_back({r.low, r.high, to});
  }

  void emit_literal(const std::string& bytes, int32_t from, int32_t to) {
    if (bytes.empty()) return empty(from, to);
    for (size_t i = 0; i < bytes.size() && !limit_reached() && work_.spend(); ++i) {
      const int32_t next = i + 1 == bytes.size() ? to : node();
      const uint8_t b = static_cast<uint8_t>(bytes[i]);
      edge(from, {b, b}, next);
      from = next;
    }
  }

  void emit_character(const CodePoints& set, int32_t from, int32_t to) {
    std::vector<ByteSequence> sequences;
    if (!work_.spend(static_cast<int64_t>(set.ranges().size()))) return;
    for (const auto& r : set.ranges()) utf8_sequences(r.low, r.high, sequences);
    std::map<ByteSequence, int32_t> tails;  // equal continuations share nodes
    for (const ByteSequence& s : sequences) {
      if (limit_reached() || !work_.spend(4 * static_cast<int64_t>(s.size()))) return;
      int32_t next = to;
      for (size_t i = s.size(); i-- > 1;) {
        const auto [found, added] =
            tails.try_emplace(ByteSequence(s.begin() + static_cast<int64_t>(i), s.end()), 0);
        if (added) {
          found->second = node();
          edge(found->second, s[i], next);
        }
        next = found->second;
      }
      edge(from, s[0], next);
    }
  }

  void emit_sequence(const std::vector<ExprPtr>& parts, int32_t from, int32_t to) {
    if (parts.empty()) return empty(from, to);
    for (size_t i = 0; i < parts.size() && !limit_reached(); ++i) {
      const int32_t next = i + 1 == parts.size() ? to : node();
      emit(*parts[i], from, next);
      from = next;
    }
  }

  void emit_repeat(const Expr& e, int32_t from, int32_t to) {
    const Expr& part = *e.parts[0];
    for (int64_t i = 0; i < e.min && !limit_reached(); ++i) {
      const int32_t next = node();
      emit(part, from, next);
      from = next;
    }
    if (e.max < 0) {  // loop through a new node, so that no other edge re-enters the loop
      const int32_t loop = node();
      empty(from, loop);
      emit(part, loop, loop);
      return empty(loop, to);
    }
    for (int64_t i = e.min; i < e.max && !limit_reached(); ++i) {
      empty(from, to);
      const int32_t next = node();
      emit(part, from, next);
      from = next;
    }
    empty(from, to);
  }

  RawGraph& g_;
  const Limits& limits_;
  WorkBudget& work_;
  size_t edges_ = 0;
};

}  // namespace

Result<RawGraph> emit(const RuleSet& rules, const Limits& limits, WorkBudget& work) {
  RawGraph graph;
  Emitter emitter(graph, limits, work);
  for (size_t i = 0; i < rules.bodies.size() && !emitter.limit_reached(); ++i) {
    graph.starts.push_back(emitter.node());
    graph.ends.push_back(emitter.node());
    if (!rules.bodies[i]) return error_at("grammar", "rule '{}' is used but never defined", rules.names[i]);
    emitter.emit(*rules.bodies[i], graph.starts.back(), graph.ends.back());
  }
  if (work.stopped()) return work.error("grammar");
  if (emitter.limit_reached())
    return error_of(Error::Kind::kLimit, "grammar",
                    "needs more than {} nodes or {} edges; make its repetitions smaller", limits.nodes,
                    limits.edges);
  return graph;
}

}  // namespace makar::grammar
