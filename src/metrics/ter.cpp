#include "metrics/ter.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "metrics/word_ids.h"

namespace makar {
namespace {

// The limits of tercom, and sacrebleu's limit of candidates: part of the definition, since the search is
// greedy.
constexpr int64_t kMaxShiftSize = 10, kMaxShiftDistance = 50, kBeamWidth = 25, kMaxShiftCandidates = 1000;

using Ids = std::vector<uint32_t>;
enum class Edit : uint8_t { kSame, kSubstitute, kInsert, kDelete, kNone };

// One row of the table of edit distances: only the cells near the diagonal.
struct BeamRow {
  static constexpr int64_t kFar = int64_t{1} << 50;  // the cost of a cell outside of the beam
  int64_t first = 0;
  std::vector<int64_t> cost;
  std::vector<Edit> edit;

  int64_t at(int64_t j) const {
    const auto k = static_cast<size_t>(j - first);  // below the first cell it wraps to a huge index
    return k < cost.size() ? cost[k] : kFar;
  }
  Edit edit_at(int64_t j) const { return at(j) == kFar ? Edit::kNone : edit[static_cast<size_t>(j - first)]; }
};

// Edit distance of hypotheses to one reference. The hypotheses of one search have the same length and share
// their beginnings, whose rows are computed once.
class BeamDistance {
 public:
  BeamDistance(const Ids& reference, size_t length, WorkBudget& work) : ref_(reference), work_(work) {
    const auto n = static_cast<double>(ref_.size());
    ratio_ = length > 0 ? n / static_cast<double>(length) : 1;
    beam_ = kBeamWidth < ratio_ / 2 ? static_cast<int64_t>(std::ceil(ratio_ / 2 + kBeamWidth)) : kBeamWidth;
    rows_.resize(length + 1);
    for (size_t j = 0; j <= ref_.size(); ++j)
      rows_[0].cost.push_back(static_cast<int64_t>(j)), rows_[0].edit.push_back(Edit::kInsert);
  }

  // The distance of `hyp`, which shares its first `same` words with the hypothesis of rows(). False: out of
  // budget.
  bool distance(const Ids& hyp, size_t same, std::vector<BeamRow>& rows, int64_t& out) {
    const BeamRow* above = &rows_[same];
    for (size_t i = same; i < hyp.size(); ++i) {
      if (!compute(hyp, i + 1, *above, rows[i + 1])) return false;
      above = &rows[i + 1];
    }
    out = above->at(static_cast<int64_t>(ref_.size()));
    return true;
  }
  // Makes `hyp` the hypothesis of rows(); `out`: its distance.
  bool set_hypothesis(const Ids& hyp, int64_t& out) { return distance(hyp, 0, rows_, out); }
  const std::vector<BeamRow>& rows() const { return rows_; }

 private:
  bool compute(const Ids& hyp, size_t i, const BeamRow& above, BeamRow& row) {
    const auto n = static_cast<int64_t>(ref_.size());
    const auto diagonal = static_cast<int64_t>(std::floor(static_cast<double>(i) * ratio_));
    const int64_t low = std::max<int64_t>(0, diagonal - beam_);
    const int64_t high = i == hyp.size() ? n + 1 : std::min(n + 1, diagonal + beam_);
    if (!work_.spend(table_work(static_cast<size_t>(std::max<int64_t>(high - low, 0))) * 2)) return false;
    const auto size = static_cast<size_t>(std::max<int64_t>(high - low, 0));
    row.first = low, row.cost.resize(size), row.edit.resize(size);
    int64_t diagonal_cost = above.at(low - 1), left = BeamRow::kFar;
    for (size_t k = 0; k < size; ++k) {
      const int64_t j = low + static_cast<int64_t>(k), up = above.at(j);
      int64_t best = BeamRow::kFar;
      Edit edit = Edit::kNone;
      const auto offer = [&](int64_t cost, Edit kind) {
        if (cost < best) best = cost, edit = kind;
      };
      if (j > 0) {
        const bool equal = hyp[i - 1] == ref_[static_cast<size_t>(j - 1)];
        offer(diagonal_cost + (equal ? 0 : 1), equal ? Edit::kSame : Edit::kSubstitute);
      }
      offer(up + 1, Edit::kDelete);
      if (j > 0) offer(left + 1, Edit::kInsert);
      row.cost[k] = left = best, row.edit[k] = edit;
      diagonal_cost = up;
    }
    return true;
  }

  const Ids& ref_;
  WorkBudget& work_;
  double ratio_ = 1;
  int64_t beam_ = kBeamWidth;
  std::vector<BeamRow> rows_;
};

// For each word of the reference the hypothesis position it is aligned to, and the words that are wrong.
struct Alignment {
  std::vector<int64_t> position;
  std::vector<bool> ref_wrong, hyp_wrong;
};

Alignment align(const std::vector<BeamRow>& rows, size_t ref_size) {
  std::vector<Edit> edits;
  for (int64_t i = static_cast<int64_t>(rows.size()) - 1, j = static_cast<int64_t>(ref_size);
       i > 0 || j > 0;) {
    const Edit edit = rows[static_cast<size_t>(i)].edit_at(j);
    check(edit != Edit::kNone, "the rows of the beam overlap");
    edits.push_back(edit);
    if (edit != Edit::kInsert) --i;
    if (edit != Edit::kDelete) --j;
  }
  Alignment out;
  for (size_t e = edits.size(); e-- > 0;) {
    const bool wrong = edits[e] != Edit::kSame;
    if (edits[e] != Edit::kInsert) out.hyp_wrong.push_back(wrong);
    if (edits[e] == Edit::kDelete) continue;
    out.position.push_back(static_cast<int64_t>(out.hyp_wrong.size()) - 1);
    out.ref_wrong.push_back(wrong);
  }
  return out;
}

bool any_wrong(const std::vector<bool>& wrong, int64_t from, int64_t length) {
  for (int64_t i = from; i < from + length; ++i)
    if (wrong[static_cast<size_t>(i)]) return true;
  return false;
}

// Moves `length` words from `start` to before the word at `target`.
Ids shifted(const Ids& words, int64_t start, int64_t length, int64_t target) {
  Ids out = words;
  const auto at = [&](int64_t i) {
    return out.begin() + std::min<int64_t>(i, static_cast<int64_t>(out.size()));
  };
  if (target < start)
    std::rotate(at(target), at(start), at(start + length));
  else if (target > start + length)
    std::rotate(at(start), at(start + length), at(target));
  else  // a target inside the phrase: tercom moves the phrase right by target - start words
    std::rotate(at(start), at(start + length), at(length + target));
  return out;
}

struct Shift {
  std::tuple<int64_t, int64_t, int64_t, int64_t> rank;  // gain, length, then the earliest start and target
  Ids words;
};

class ShiftSearch {
 public:
  ShiftSearch(const Ids& reference, size_t length, WorkBudget& work)
      : ref_(reference), work_(work), distance_(reference, length, work), scratch_(length + 1) {}

  // False: out of budget.
  bool run(Ids hyp, int64_t& edits) {
    for (int64_t shifts = 0;; ++shifts) {
      int64_t edits_before;
      if (!distance_.set_hypothesis(hyp, edits_before)) return false;
      edits = shifts + edits_before;
      std::optional<Shift> best;
      if (!best_shift(hyp, edits_before, best)) return false;
      if (candidates_ >= kMaxShiftCandidates || !best || std::get<0>(best->rank) <= 0) return true;
      hyp = std::move(best->words);
    }
  }

 private:
  bool best_shift(const Ids& hyp, int64_t edits_before, std::optional<Shift>& best) {
    const Alignment a = align(distance_.rows(), ref_.size());
    const auto hyp_size = static_cast<int64_t>(hyp.size()), ref_size = static_cast<int64_t>(ref_.size());
    for (int64_t h = 0; h < hyp_size; ++h) {
      const int64_t last = std::min(ref_size - 1, h + kMaxShiftDistance);
      if (!work_.spend(2)) return false;
      for (int64_t r = std::max<int64_t>(0, h - kMaxShiftDistance); r <= last; ++r)
        for (int64_t length = 1;
             length <= kMaxShiftSize && h + length <= hyp_size && r + length <= ref_size &&
             hyp[static_cast<size_t>(h + length - 1)] == ref_[static_cast<size_t>(r + length - 1)];
             ++length) {
          if (!try_targets(hyp, edits_before, a, h, r, length, best)) return false;
          if (candidates_ >= kMaxShiftCandidates) return true;
        }
    }
    return true;
  }

  bool try_targets(const Ids& hyp, int64_t edits_before, const Alignment& a, int64_t h, int64_t r,
                   int64_t length, std::optional<Shift>& best) {
    if (!any_wrong(a.hyp_wrong, h, length) || !any_wrong(a.ref_wrong, r, length)) return true;
    const int64_t aligned = a.position[static_cast<size_t>(r)];
    if (h <= aligned && aligned < h + length) return true;
    int64_t previous = -1;
    for (int64_t offset = -1; offset < length; ++offset) {
      const int64_t target = r + offset == -1 ? 0 : a.position[static_cast<size_t>(r + offset)] + 1;
      if (target == previous) continue;
      previous = target;
      Ids words = shifted(hyp, h, length, target);
      int64_t edits_after;
      if (!distance_.distance(words, static_cast<size_t>(std::min(h, target)), scratch_, edits_after))
        return false;
      ++candidates_;
      const std::tuple rank{edits_before - edits_after, length, -h, -target};
      if (!best || rank > best->rank) best = Shift{rank, std::move(words)};
    }
    return true;
  }

  const Ids& ref_;
  WorkBudget& work_;
  BeamDistance distance_;
  std::vector<BeamRow> scratch_;
  int64_t candidates_ = 0;
};

}  // namespace

Result<int64_t> ter_edits(const Ids& hyp, const Ids& ref, WorkBudget& work) {
  if (ref.empty()) return static_cast<int64_t>(hyp.size());
  int64_t edits = 0;
  if (!ShiftSearch(ref, hyp.size(), work).run(hyp, edits)) return work.error("");
  return edits;
}

Result<Evaluation> evaluate_ter(const Segments& segments, const TerText& text) {
  std::vector<Statistics> units;
  for (size_t i = 0; i < segments.size(); ++i) {
    WorkBudget work(kMaxSegmentWork);
    WordIds ids;
    const auto words = [&](const std::string& line) { return split_words(text, without_end_blanks(line)); };
    const auto hyp = ids.of(words(segments[i].hypothesis));
    double edits = INFINITY, lengths = 0;
    for (const std::string& line : segments[i].references) {
      // sacrebleu normalizes references twice.
      const auto ref = ids.of(words(fmt::format("{}", fmt::join(words(line), " "))));
      const auto one = ter_edits(hyp, ref, work);
      if (!one.ok()) return one.error().in(segment_place(i));
      edits = std::min(edits, static_cast<double>(*one));
      lengths += static_cast<double>(ref.size());
    }
    units.push_back({edits, lengths / static_cast<double>(segments[i].references.size())});
  }
  const auto score = [](std::span<const double> sums) {
    return sums[1] > 0 ? 100 * sums[0] / sums[1] : sums[0] > 0 ? 100.0 : 0.0;
  };
  const auto yes = [](bool b) { return b ? "yes" : "no"; };
  const std::string signature =
      fmt::format("nrefs:{}|case:{}|tok:tercom|norm:{}|punct:{}|asian:{}|version:{}",
                  reference_count(segments), text.case_sensitive ? "mixed" : "lc", yes(text.normalized),
                  yes(!text.no_punctuation), yes(text.asian), kSacrebleuVersion);
  const Statistics sums = sum_of(units);
  Evaluation out = evaluation_of_sums("TER", signature, std::move(units), score);
  out.lower_is_better = true;
  if (!sums.empty()) out.details = {{"num_edits", sums[0]}, {"ref_length", sums[1]}};
  return out;
}

}  // namespace makar
