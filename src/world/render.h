// A story in English: several forms for every event, in the past or the present tense, with pronouns
// where they have one possible meaning.
#pragma once
#include "world/story.h"

namespace makar::world {

struct Sentence {
  std::string text;
  int first = -1, last = -1;  // the events it states; -1 if none
};
std::vector<Sentence> render_story(const Story& story, Draw& draw);
std::string join(const std::vector<Sentence>& sentences);

// Phrases that questions and answers share with the story.
std::string capitalized(std::string text);
std::string at_place(const Place& place);      // "in the barn"
std::string full_name(const Thing& thing);     // "the red kite"
std::string counted(int n, const Item& item);  // "one apple", "five apples"
std::string verb_form(const Verb& verb, bool present, bool plural = false);
std::string done(const Activity& activity, bool present);   // "painted a fence"
std::string listed(const std::vector<std::string>& names);  // "Anna, Tom and Mia"

}  // namespace makar::world
