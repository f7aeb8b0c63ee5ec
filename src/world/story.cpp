// Simulates a story: two or three threads of events (moving things, counting, facts, a timetable, ...),
// interleaved.
#include "world/story.h"

#include <algorithm>

#include "base/error.h"

namespace makar::world {
namespace {

class Simulation {
 public:
  Simulation(Draw& d, Story& story) : d_(d), s_(story) {}
  void run(int budget);

 private:
  using Thread = std::vector<Event>;
  Thread move_things(int budget);
  bool act(State& state, Thread& out);
  Thread count_items(int budget, bool near);  // near: people may hand each other items
  Thread shop();
  Thread personal_facts();
  Thread timetable(int budget);
  Thread activities_in_order(int budget);
  Thread trips();
  Thread weather();
  // Distinct people of the cast, in random order.
  std::vector<int> some_people(int most) {
    std::vector<int> out;
    for (size_t i = 0; i < s_.people.size(); ++i) out.push_back(static_cast<int>(i));
    d_.shuffle(out);
    out.resize(std::min(out.size(), static_cast<size_t>(most)));
    return out;
  }
  // A word that the story does not use yet.
  Word fresh(const Words& list) {
    for (;;) {
      const Word word = d_.pick(list);
      if (std::find(used_.begin(), used_.end(), word) == used_.end()) return used_.push_back(word), word;
    }
  }
  const Activity* fresh_activity() {
    for (;;) {
      const Activity* one = &d_.pick(activities());
      const bool used = std::any_of(did_.begin(), did_.end(), [&](const Activity* other) {
        return other->verb.base == one->verb.base;
      });
      if (!used) return did_.push_back(one), one;
      if (did_.size() >= 30) did_.clear();  // long stories use a verb again
    }
  }

  Draw& d_;
  Story& s_;
  Words used_;
  std::vector<const Activity*> did_;
  std::vector<Kind> facts_;  // kinds of personal facts so far
};

// People fetch, carry, drop and give things.
Simulation::Thread Simulation::move_things(int budget) {
  Thread out;
  const int things = budget >= 6 ? d_.from(2, 3) : d_.from(1, 2);
  for (int i = d_.from(3, 4); i > 0; --i)
    for (;;) {
      const Place& place = d_.pick(places());
      if (std::any_of(s_.places.begin(), s_.places.end(),
                      [&](const Place& p) { return p.noun == place.noun; }))
        continue;
      s_.places.push_back(place);
      break;
    }
  const std::vector<int> people = some_people(3);
  for (int i = 0; i < things; ++i) {
    s_.things.push_back({fresh(objects()), fresh(colours())});
    if (d_.chance(2, 3))
      out.push_back({.kind = Kind::kThing, .thing = i, .place = d_.below(s_.places.size())});
    else
      out.push_back({.kind = Kind::kHolds, .a = d_.pick(people), .thing = i});
    if (d_.chance(1, 4)) out.push_back({.kind = Kind::kOwns, .a = d_.pick(people), .thing = i});
  }
  for (const int person : people)
    if (d_.chance(1, 3))
      out.push_back({.kind = Kind::kHere, .a = person, .place = d_.below(s_.places.size())});
  State state(s_);
  for (const Event& e : out) state.apply(e);
  const size_t facts = out.size();
  for (int tries = 0; tries < 20 * budget && static_cast<int>(out.size() - facts) < budget; ++tries)
    if (act(state, out)) state.apply(out.back());
  return out;
}

// Actions with things are preferred where one is possible; otherwise somebody walks. False if the walk would
// end where it starts.
bool Simulation::act(State& state, Thread& out) {
  const auto where = [&](int person) { return state.where[static_cast<size_t>(person)]; };
  Thread possible;
  for (int thing = 0; thing < static_cast<int>(s_.things.size()); ++thing) {
    const int holder = state.holder[static_cast<size_t>(thing)];
    if (holder >= 0 && where(holder) >= 0)
      possible.push_back({.kind = Kind::kDrop, .a = holder, .thing = thing, .place = where(holder)});
    for (int a = 0; a < static_cast<int>(s_.people.size()); ++a) {
      if (holder < 0 && where(a) == state.where_thing(thing))
        for (int weight = 0; weight < 2; ++weight)
          possible.push_back({.kind = Kind::kTake, .a = a, .thing = thing});
      if (holder >= 0 && a != holder && where(a) == where(holder))
        for (int weight = 0; weight < 2; ++weight)
          possible.push_back({.kind = Kind::kGive, .a = holder, .b = a, .thing = thing});
    }
  }
  if (!possible.empty() && d_.chance(1, 2)) return out.push_back(d_.pick(possible)), true;
  const int a = d_.below(s_.people.size()), thing = d_.below(s_.things.size());
  int to = d_.below(s_.places.size());
  if (const int there = state.where_thing(thing); there >= 0 && d_.chance(1, 2)) to = there;
  if (to == where(a)) return false;
  Event e{.kind = Kind::kGo, .a = a, .place = to};
  const int b = d_.below(s_.people.size());
  if (b != a && where(b) == where(a) && d_.chance(1, 3)) e.b = b;
  if (e.b < 0 && d_.chance(1, 4)) e.word = fresh(feelings());
  out.push_back(e);
  return true;
}

Simulation::Thread Simulation::count_items(int budget, bool near) {
  Thread out;
  s_.item = &d_.pick(items());
  const std::vector<int> people = some_people(2);
  std::vector<int> count;
  for (const int person : people) {
    count.push_back(d_.from(2, 7));
    out.push_back({.kind = Kind::kCount, .a = person, .n = count.back()});
  }
  for (int i = 0; i < std::min(budget, 6); ++i) {
    const auto who = static_cast<size_t>(d_.below(2));
    const int n = d_.from(1, 3), choice = d_.below(near ? 3 : 2);
    if (choice == 0 && count[who] + n <= 10) {
      out.push_back({.kind = Kind::kGain, .a = people[who], .n = n});
      count[who] += n;
    } else if (choice == 1 && count[who] > n) {
      out.push_back({.kind = Kind::kLose, .a = people[who], .n = n});
      count[who] -= n;
    } else if (choice == 2 && count[who] > n && count[1 - who] + n <= 10) {
      out.push_back({.kind = Kind::kHand, .a = people[who], .b = people[1 - who], .n = n});
      count[who] -= n, count[1 - who] += n;
    }
  }
  return out;
}

Simulation::Thread Simulation::shop() {
  Thread out;
  s_.item = &d_.pick(items());
  const int price = d_.from(2, 5);
  out.push_back({.kind = Kind::kPrice, .n = price});
  std::vector<int> bought;
  for (const int person : some_people(2)) {
    int n = d_.from(1, 20 / price);
    if (!bought.empty() && n == bought[0]) n = n > 1 ? n - 1 : n + 1;
    bought.push_back(n);
    out.push_back({.kind = Kind::kBuy, .a = person, .n = n});
  }
  return out;
}

// One kind of fact about two or three people, with different values.
Simulation::Thread Simulation::personal_facts() {
  constexpr Kind kKinds[] = {Kind::kAge, Kind::kJob, Kind::kTown, Kind::kLikes, Kind::kPet, Kind::kRelation};
  const auto used = [&](Kind one) { return std::find(facts_.begin(), facts_.end(), one) != facts_.end(); };
  Kind kind;  // ages are those of children, who do not work
  do kind = d_.pick(kKinds);
  while (used(kind) || (kind == Kind::kAge && used(Kind::kJob)) || (kind == Kind::kJob && used(Kind::kAge)));
  facts_.push_back(kind);
  Thread out;
  const std::vector<int> people = some_people(3);
  std::vector<int> ages;
  for (size_t i = 0; i < people.size(); ++i) {
    Event e{.kind = kind, .a = people[i]};
    if (kind == Kind::kAge) {
      do e.n = d_.from(5, 14);
      while (std::find(ages.begin(), ages.end(), e.n) != ages.end());
      ages.push_back(e.n);
    }
    if (kind == Kind::kJob) e.word = fresh(jobs());
    if (kind == Kind::kTown) e.word = fresh(towns());
    if (kind == Kind::kLikes) e.word = fresh(foods());
    if (kind == Kind::kPet) {
      e.n = static_cast<int>(s_.pets.size());
      s_.pets.push_back({fresh(pet_names()), fresh(animals())});
    }
    if (kind == Kind::kRelation) {
      if (i + 1 == people.size()) break;
      e.b = people[i + 1];
      e.word = fresh(s_.people[static_cast<size_t>(e.b)].female ? relations_of_women() : relations_of_men());
    }
    out.push_back(e);
  }
  return out;
}

Simulation::Thread Simulation::timetable(int budget) {
  Thread out;
  const std::vector<int> people = some_people(3);
  int hour = d_.from(1, 5);
  for (int i = 0; i < std::max(2, budget) && hour <= 12; ++i) {
    out.push_back({.kind = Kind::kDo,
                   .a = people[static_cast<size_t>(i) % people.size()],
                   .n = hour,
                   .activity = fresh_activity()});
    hour += d_.from(1, 3);
  }
  return out;
}

Simulation::Thread Simulation::activities_in_order(int budget) {
  Thread out;
  const std::vector<int> people = some_people(2);
  for (int i = 0; i < std::max(3, budget); ++i)
    out.push_back(
        {.kind = Kind::kDo, .a = d_.chance(2, 3) ? people[0] : people[1], .activity = fresh_activity()});
  return out;
}

Simulation::Thread Simulation::trips() {
  Thread out;
  for (const int person : some_people(2)) {
    Event e{.kind = Kind::kTrip, .a = person, .n = d_.from(1, 8), .hours = d_.from(1, 4)};
    e.word = fresh(towns());
    out.push_back(e);
  }
  std::sort(out.begin(), out.end(), [](const Event& a, const Event& b) { return a.n < b.n; });
  return out;
}

Simulation::Thread Simulation::weather() {
  Thread out;
  for (int i = 0; i < 2; ++i) out.push_back({.kind = Kind::kWeather, .word = fresh(weathers())});
  return out;
}

void Simulation::run(int budget) {
  std::vector<Thread> threads;
  // The main thread has most of the events; a second one is interleaved with it.
  const int main = d_.from(1, 9), second = d_.below(6), rest = std::max(2, budget - 3);
  const bool timed = main == 5, in_order = main == 6;
  if (main < 4) threads.push_back(move_things(rest));
  if (main == 4) threads.push_back(count_items(rest, true));
  if (timed) threads.push_back(timetable(rest - 1));
  if (in_order) threads.push_back(activities_in_order(rest));
  if (main >= 7) threads.push_back(personal_facts());
  // A story has one kind of item, and at most one of places, a timetable and trips, so that all of it is
  // consistent.
  if (second < 2 || (second == 2 && main == 4))
    threads.push_back(personal_facts());
  else if (second == 2)
    threads.push_back(count_items(2, main >= 4));
  else if (second == 3 || (second == 4 && main <= 5 && main != 4))
    threads.push_back(weather());
  else if (second == 4)
    threads.push_back(trips());
  else if (main == 4)
    threads.push_back(personal_facts());
  else
    threads.push_back(shop());
  if (main >= 7)
    threads.push_back(second == 4 ? personal_facts() : activities_in_order(3));
  else if (d_.chance(1, 4))
    threads.push_back(personal_facts());

  // Facts first, thread by thread; then the actions of all threads, each thread in its order.
  std::vector<Thread> actions;
  for (Thread& thread : threads) {
    size_t facts = 0;
    while (facts < thread.size() && thread[facts].kind < Kind::kGo &&
           (facts == 0 || thread[facts].kind != Kind::kWeather))
      ++facts;
    s_.events.insert(s_.events.end(), thread.begin(), thread.begin() + static_cast<int64_t>(facts));
    actions.emplace_back(thread.begin() + static_cast<int64_t>(facts), thread.end());
  }
  for (;;) {
    std::vector<Thread*> open;
    for (Thread& t : actions)
      if (!t.empty()) open.push_back(&t);
    if (open.empty()) break;
    Thread& next = *d_.pick(open);
    s_.events.push_back(next.front());
    next.erase(next.begin());
  }
}

size_t people_in(const Story& s) {
  std::vector<bool> seen(s.people.size());
  for (const Event& e : s.events)
    for (const int person : {e.a, e.b})
      if (person >= 0) seen[static_cast<size_t>(person)] = true;
  return static_cast<size_t>(std::count(seen.begin(), seen.end(), true));
}

}  // namespace

Story make_story(const WorldOptions& o, uint64_t record, const std::function<bool(const Story&)>& accepted) {
  check(o.events >= WorldOptions::kMinEvents && o.events <= WorldOptions::kMaxEvents,
        "a number of events in range");
  Draw d(o.seed, static_cast<uint64_t>(o.split), record, Stream::kStory);
  constexpr int kMaxTries = 1000;  // every kind of question fits more than one story in a hundred
  for (int tries = 0;; ++tries) {
    Story story;
    story.split = o.split;
    story.people = draw_cast(d, o.split);
    story.present = d.chance(1, 4);
    Simulation(d, story).run(o.events);
    if (people_in(story) < 2) continue;  // every story has a pair of people, which decides its split
    if (!accepted || tries >= kMaxTries || accepted(story)) return story;
  }
}

}  // namespace makar::world
