#include "world/render.h"

namespace makar::world {

std::string join(const std::vector<Sentence>& sentences) {
  std::string out;
  for (const Sentence& s : sentences) out += (out.empty() ? "" : " ") + s.text;
  return out;
}

std::string capitalized(std::string text) {
  for (char& c : text)
    if (c != '"') {  // the first letter, after an opening quotation mark
      if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
      break;
    }
  return text;
}

std::string at_place(const Place& place) {
  return std::string(place.preposition) + " the " + std::string(place.noun);
}

std::string full_name(const Thing& thing) {
  return "the " + std::string(thing.colour) + " " + std::string(thing.noun);
}

std::string counted(int n, const Item& item) {
  return number(n) + " " + std::string(n == 1 ? item.one : item.many);
}

std::string verb_form(const Verb& verb, bool present, bool plural) {
  return std::string(!present ? verb.past : plural ? verb.base : verb.third);
}

std::string done(const Activity& activity, bool present) {
  return verb_form(activity.verb, present) + " " + std::string(activity.complement);
}

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i)
    out += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return out;
}

}  // namespace makar::world
