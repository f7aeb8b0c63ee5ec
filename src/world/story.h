// A small world as data: a cast, things and places, and the events of a story in order. Text and questions
// are both derived from it.
#pragma once
#include <functional>
#include <optional>

#include "world/draw.h"
#include "world/lexicon.h"

namespace makar::world {

enum class Split : uint64_t { kTrain, kTest, kNames };

struct WorldOptions {
  static constexpr int kMinEvents = 3, kMaxEvents = 40;
  uint64_t seed = 1;
  Split split = Split::kTrain;
  int events = 4;      // about this many events per story
  uint64_t kinds = 0;  // which kinds of questions: bit i for question_kinds()[i]; 0 for all
};

struct Person {
  Word name;
  bool female;
  Word he() const { return female ? "she" : "he"; }
};
struct Thing {
  Word noun, colour;
};
struct Pet {
  Word name, animal;
};

enum class Kind {
  // Facts, stated before the actions.
  kHere,      // a is at place
  kThing,     // thing is at place
  kHolds,     // a has thing
  kOwns,      // thing belongs to a
  kCount,     // a has n items
  kAge,       // a is n years old
  kJob,       // a works as word
  kTown,      // a lives in word
  kLikes,     // a likes word
  kPet,       // a has a pet
  kRelation,  // b is the word (brother) of a
  kPrice,     // one item costs n coins
  kWeather,   // it is word; the first one is a fact, later ones are changes
  // Actions.
  kGo,    // a (and b) goes to place, because of word
  kTake,  // a takes thing
  kDrop,  // a puts thing down
  kGive,  // a gives thing to b
  kGain,  // a gets n more items
  kLose,  // a loses n items
  kHand,  // a gives n items to b
  kBuy,   // a buys n items at the price
  kDo,    // a does activity, at hour n if n > 0
  kTrip,  // a leaves at hour n for word; the trip takes `hours`
};

// Indices into the lists of the story; -1 where a field has no meaning.
struct Event {
  Kind kind;
  int a = -1, b = -1, thing = -1, place = -1, n = 0, hours = 0;
  Word word = {};
  const Activity* activity = nullptr;
};

struct Story {
  std::vector<Person> people;
  std::vector<Thing> things;
  std::vector<Place> places;
  std::vector<Pet> pets;  // one per person or none
  const Item* item = nullptr;
  std::vector<Event> events;
  bool present = false;  // the tense of its text
  Split split = Split::kTrain;

  bool is_fact(size_t event) const;
};

// The story of one record: the first one that `accepted` takes, where it is given.
Story make_story(const WorldOptions& options, uint64_t record,
                 const std::function<bool(const Story&)>& accepted = nullptr);

// Whether two people may appear together in stories of this split. Every pair of names belongs to exactly one
// of train and test; kNames uses names that are in neither.
bool together(Word one, Word other, Split split);

// Two to four people who may be in one story of the split.
std::vector<Person> draw_cast(Draw& draw, Split split);
// Another person who may be in a story with these people.
Person draw_person(Draw& draw, const std::vector<Person>& people, Split split);

// Where everything is after the events.
struct State {
  explicit State(const Story& story);
  void apply(const Event& event);
  int where_thing(int thing) const;  // a place, or -1 if unknown
  std::vector<int> where;            // of each person; -1 if unknown
  std::vector<std::vector<int>> visited;
  std::vector<int> holder, lies;  // of each thing: a person, or a place
  std::vector<int> count;         // items of each person; -1 if unknown
};

}  // namespace makar::world
