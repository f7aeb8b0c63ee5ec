#include "world/story.h"

namespace makar::world {

State::State(const Story& story)
    : where(story.people.size(), -1),
      visited(story.people.size()),
      holder(story.things.size(), -1),
      lies(story.things.size(), -1),
      count(story.people.size(), -1) {}

void State::apply(const Event& e) {
  const auto at = [](auto& list, int i) -> auto& { return list[static_cast<size_t>(i)]; };
  switch (e.kind) {
    case Kind::kHere:
    case Kind::kGo:
      for (const int person : {e.a, e.b})
        if (person >= 0) {
          at(where, person) = e.place;
          at(visited, person).push_back(e.place);
        }
      break;
    case Kind::kThing:
      at(lies, e.thing) = e.place;
      break;
    case Kind::kHolds:
    case Kind::kTake:
      at(holder, e.thing) = e.a, at(lies, e.thing) = -1;
      break;
    case Kind::kDrop:
      at(holder, e.thing) = -1, at(lies, e.thing) = at(where, e.a);
      break;
    case Kind::kGive:
      at(holder, e.thing) = e.b;
      break;
    case Kind::kCount:
      at(count, e.a) = e.n;
      break;
    case Kind::kGain:
      at(count, e.a) += e.n;
      break;
    case Kind::kLose:
      at(count, e.a) -= e.n;
      break;
    case Kind::kHand:
      at(count, e.a) -= e.n, at(count, e.b) += e.n;
      break;
    default:
      break;
  }
}

int State::where_thing(int thing) const {
  const int person = holder[static_cast<size_t>(thing)];
  return person >= 0 ? where[static_cast<size_t>(person)] : lies[static_cast<size_t>(thing)];
}

bool Story::is_fact(size_t event) const {
  if (events[event].kind != Kind::kWeather) return events[event].kind < Kind::kWeather;
  for (size_t i = 0; i < event; ++i)
    if (events[i].kind == Kind::kWeather) return false;
  return true;
}

}  // namespace makar::world
