// Who may meet: the split of a story follows from the names in it.
#include <algorithm>

#include "base/error.h"
#include "world/story.h"

namespace makar::world {
namespace {

constexpr size_t kReserved = 24;  // of each list of names, the last ones are only in kNames

// FNV-1a, then the group. People of a train story are of different groups, those of a test story of one
// group.
constexpr uint64_t kGroups = 12;
uint64_t group_of(Word name) {
  uint64_t h = 14695981039346656037u;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return (h >> 32) % kGroups;
}

}  // namespace

Person draw_person(Draw& d, const std::vector<Person>& people, Split split) {
  check(people.size() < kGroups, "a cast of at most 12 people");  // each group has more than 20 names
  for (;;) {
    const bool female = d.chance(1, 2);
    const Words& names = female ? women() : men();
    const size_t usual = names.size() - kReserved;
    const size_t at = split == Split::kNames ? usual + static_cast<size_t>(d.below(kReserved))
                                             : static_cast<size_t>(d.below(usual));
    const bool fits = std::all_of(people.begin(), people.end(), [&](const Person& p) {
      return p.name != names[at] && together(p.name, names[at], split);
    });
    if (fits) return {names[at], female};
  }
}

bool together(Word one, Word other, Split split) {
  if (split == Split::kNames) return true;
  return (group_of(one) == group_of(other)) == (split == Split::kTest);
}

std::vector<Person> draw_cast(Draw& d, Split split) {
  const int size = d.from(2, 3) + (d.chance(1, 5) ? 1 : 0);
  std::vector<Person> cast;
  for (int i = 0; i < size; ++i) cast.push_back(draw_person(d, cast, split));
  return cast;
}

}  // namespace makar::world
