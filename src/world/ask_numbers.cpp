// Counting, adding, comparing, prices and ages.
#include <fmt/format.h>

#include <algorithm>

#include "world/asking.h"

namespace makar::world {
namespace {

struct Known {
  int person, n;
};
std::vector<Known> counts(const Scene& s) {
  std::vector<Known> out;
  for (size_t i = 0; i < s.end.count.size(); ++i)
    if (s.end.count[i] >= 0) out.push_back({static_cast<int>(i), s.end.count[i]});
  return out;
}
std::vector<Known> ages(const Scene& s) {
  std::vector<Known> out;
  for (const Event* e : s.events_of(Kind::kAge)) out.push_back({e->a, e->n});
  return out;
}

// The changes of a person's items, one by one: "Basil had four; four plus three is seven; seven minus two is
// "; empty if there are none.
std::string changes(const Scene& s, int person) {
  std::string out;
  int n = 0;
  for (const Event& e : s.story.events) {
    if (e.kind == Kind::kCount && e.a == person) n = e.n;
    const bool more = (e.kind == Kind::kGain && e.a == person) || (e.kind == Kind::kHand && e.b == person);
    const bool less = (e.kind == Kind::kLose || e.kind == Kind::kHand) && e.a == person;
    if (!more && !less) continue;
    if (out.empty()) out = fmt::format("{} {} ", s.name(person), s.story.present ? "has" : "had");
    out += fmt::format("{0}; {0} {1} {2} is ", number(n), more ? "plus" : "minus", number(e.n));
    n += more ? e.n : -e.n;
  }
  return out;
}

// What two people have, each with the calculation if it changed: "Basil has four; Anita had five; five minus
// three is two".
std::string both_counts(const Scene& s, const Known& a, const Known& b) {
  const auto one = [&](const Known& k) {
    const std::string steps = changes(s, k.person);
    return (steps.empty() ? s.name(k.person) + " has " : steps) + number(k.n);
  };
  return one(a) + "; " + one(b);
}
// "Basil is nine; Anita is seven".
std::string both_ages(const Scene& s, const Known& a, const Known& b) {
  return fmt::format("{} is {}; {} is {}", s.name(a.person), number(a.n), s.name(b.person), number(b.n));
}

Asked how_many(const Scene& s, Draw& d) {
  const auto known = counts(s);
  if (known.empty()) return {};
  const Known k = d.pick(known);
  const std::string many(s.story.item->many);
  Question q{.query = {{"ask", "how many"}, {"who", s.name(k.person)}}};
  q.text = one_of(d, {fmt::format("How many {} does {} have?", many, s.name(k.person)),
                      fmt::format("How many {} does {} have now?", many, s.name(k.person))});
  q.value = number(k.n), q.working = changes(s, k.person);
  q.pattern =
      fmt::format("{} has {{}} {}.", s.name(k.person), k.n == 1 ? s.story.item->one : s.story.item->many);
  add_wrong_numbers(q, k.n, d);
  return q;
}

Asked together_count(const Scene& s, Draw& d) {
  auto known = counts(s);
  if (known.size() < 2) return {};
  d.shuffle(known);
  const std::string a = s.name(known[0].person), b = s.name(known[1].person);
  Question q{.query = {{"ask", "together"}, {"who", a}, {"with", b}}};
  q.text = fmt::format("How many {} do {} and {} have together?", s.story.item->many, a, b);
  const int total = known[0].n + known[1].n;
  q.value = number(total), q.working = fmt::format("{}; {} plus {} is ", both_counts(s, known[0], known[1]),
                                                   number(known[0].n), number(known[1].n));
  q.pattern = fmt::format("they have {{}} {} together.", s.story.item->many);
  add_wrong_numbers(q, total, d);
  return q;
}

// Which of two people has more, or is older. `facts` states both numbers.
Asked compare(const Scene& s, Draw& d, std::vector<Known> known, decltype(both_ages)& facts, const char* ask,
              const std::string& more, const std::string& less, const std::string& verb) {
  if (known.size() < 2) return {};
  d.shuffle(known);
  if (known[0].n == known[1].n) return {};
  const bool most = d.chance(1, 2);
  const std::string word = most ? more : less, a = s.name(known[0].person), b = s.name(known[1].person);
  Question q{.query = {{"ask", ask}, {"most", most}, {"who", a}, {"with", b}}};
  q.text = fmt::format("Who {} {}, {} or {}?", verb, word, a, b);
  q.working = facts(s, known[0], known[1]) + ", so ";
  q.value = (known[0].n > known[1].n) == most ? a : b, q.pattern = fmt::format("{{}} {} {}.", verb, word);
  add_wrong_people(q, s, d);
  return q;
}

Asked who_has_more(const Scene& s, Draw& d) {
  const std::string many(s.story.item ? s.story.item->many : "");
  return compare(s, d, counts(s), both_counts, "more", "more " + many, "fewer " + many, "has");
}
Asked older(const Scene& s, Draw& d) {
  return compare(s, d, ages(s), both_ages, "older", "older", "younger", "is");
}

Asked difference(const Scene& s, Draw& d) {
  const bool by_age = s.events_of(Kind::kAge).size() >= 2 && d.chance(1, 2);
  auto known = by_age ? ages(s) : counts(s);
  if (known.size() < 2) return {};
  d.shuffle(known);
  if (known[0].n == known[1].n) return {};
  if (known[0].n < known[1].n) std::swap(known[0], known[1]);
  const std::string a = s.name(known[0].person), b = s.name(known[1].person);
  const int n = known[0].n - known[1].n;
  Question q{.query = {{"ask", by_age ? "years older" : "how many more"}, {"who", a}, {"with", b}}};
  if (by_age) {
    q.text = fmt::format("How many years older is {} than {}?", a, b);
    q.pattern = fmt::format("{} is {{}} {} older than {}.", a, n == 1 ? "year" : "years", b);
  } else {
    q.text = fmt::format("How many more {} does {} have than {}?", s.story.item->many, a, b);
    q.pattern =
        fmt::format("{} has {{}} more {} than {}.", a, n == 1 ? s.story.item->one : s.story.item->many, b);
  }
  q.value = number(n),
  q.working = fmt::format("{}; {} minus {} is ", (by_age ? both_ages : both_counts)(s, known[0], known[1]),
                          number(known[0].n), number(known[1].n));
  add_wrong_numbers(q, n, d);
  return q;
}

Asked age(const Scene& s, Draw& d) {
  const auto known = ages(s);
  if (known.empty()) return {};
  const Known k = d.pick(known);
  Question q{.query = {{"ask", "age"}, {"who", s.name(k.person)}}};
  q.text = one_of(d, {fmt::format("How old is {}?", s.name(k.person)),
                      fmt::format("What is {}'s age?", s.name(k.person))});
  q.value = number(k.n), q.pattern = s.name(k.person) + " is {} years old.";
  add_wrong_numbers(q, k.n, d, 2);
  return q;
}

Asked price(const Scene& s, Draw& d) {
  const auto bought = s.events_of(Kind::kBuy);
  if (bought.empty()) return {};
  const Event& e = *d.pick(bought);
  const int coins = e.n * s.events_of(Kind::kPrice)[0]->n;
  Question q{.query = {{"ask", "price"}, {"who", s.name(e.a)}}};
  const char* does = s.story.present ? "does" : "did";
  q.text = one_of(d, {fmt::format("How many coins {} {} pay?", does, s.name(e.a)),
                      fmt::format("How many coins {} {} spend?", does, s.name(e.a))});
  q.value = number(coins),
  q.pattern = fmt::format("{} {} {{}} coins.", s.name(e.a), s.story.present ? "pays" : "paid");
  add_wrong_numbers(q, coins, d);
  return q;
}

}  // namespace

const std::vector<AskRow>& number_questions() {
  static const std::vector<AskRow> rows = {{"how_many", how_many, false, 3},
                                           {"total", together_count},
                                           {"more", who_has_more, false, 2},
                                           {"older", older, false, 2},
                                           {"difference", difference, false, 3},
                                           {"age", age, false, 3},
                                           {"price", price}};
  return rows;
}

}  // namespace makar::world
