#include "story_reader.h"

#include <map>
#include <set>
#include <sstream>
#include <vector>

namespace makar {
namespace {

using Text = std::string;

Text get(const Json& value, const char* key) { return value.contains(key) ? value[key].get<Text>() : ""; }
int count_of(const Json& e) { return e.value("n", 0); }

Text spelled(int n) {
  static const char* const kWords[] = {"zero",     "one",      "two",      "three",   "four",    "five",
                                       "six",      "seven",    "eight",    "nine",    "ten",     "eleven",
                                       "twelve",   "thirteen", "fourteen", "fifteen", "sixteen", "seventeen",
                                       "eighteen", "nineteen", "twenty"};
  return n >= 0 && n <= 20 ? kWords[n] : "more than twenty";
}
Text clock(int hour) { return "at " + spelled(hour) + " o'clock"; }
Text an(const Text& word) { return (Text("aeiou").find(word[0]) != Text::npos ? "an " : "a ") + word; }

class StoryReader {
 public:
  explicit StoryReader(const Json& record)
      : events_(record["events"]),
        people_(record["people"]),
        text_(record["context"]),
        present_(record["tense"] == "present") {}

  Text answer(const Json& q) const;

 private:
  // The place of the last event that moves this person; empty if there is none.
  Text place_of(const Text& who) const {
    for (size_t i = events_.size(); i-- > 0;)
      if (moves(events_[i], who)) return phrase(events_[i]);
    return "";
  }
  static bool moves(const Json& e, const Text& who) {
    return (e["event"] == "here" || e["event"] == "go") && (get(e, "who") == who || get(e, "with") == who);
  }
  static Text phrase(const Json& e) { return get(e, "preposition") + " the " + get(e, "place"); }

  // The last event that changes who has a thing.
  const Json& last_of(const Text& object) const {
    for (size_t i = events_.size(); i-- > 0;)
      if (get(events_[i], "object") == object && events_[i]["event"] != "owns") return events_[i];
    return events_[0];
  }
  Text holder(const Text& object) const {
    const Json& e = last_of(object);
    if (e["event"] == "give") return get(e, "to");
    return e["event"] == "thing" || e["event"] == "drop" ? "nobody" : get(e, "who");
  }
  Text find_thing(const Text& object) const {
    const Text who = holder(object);
    return who == "nobody" ? phrase(last_of(object)) : place_of(who);
  }
  int items_of(const Text& who) const {
    int n = 0;
    for (const Json& e : events_) {
      const Text kind = get(e, "event");
      if (get(e, "who") == who)
        n += (kind == "count" || kind == "gain") * count_of(e) -
             (kind == "lose" || kind == "hand") * count_of(e);
      if (get(e, "to") == who && kind == "hand") n += count_of(e);
    }
    return n;
  }
  // A sum or a difference as an answer.
  static Text calculation(int a, const Text& sign, int b) {
    return spelled(a) + " " + sign + " " + spelled(b) + " is " + spelled(sign == "plus" ? a + b : a - b);
  }
  // How a person's items change: the first number and a calculation per change, or the number if nothing
  // changes.
  Text counting_of(const Text& who) const {
    Text out;
    int now = 0;
    for (const Json& e : events_) {
      const Text kind = get(e, "event");
      const int n = count_of(e);
      if (kind == "count" && get(e, "who") == who) now = n;
      const bool gives = (kind == "lose" || kind == "hand") && get(e, "who") == who;
      const bool gets = get(e, kind == "hand" ? "to" : "who") == who && (kind == "hand" || kind == "gain");
      if (!gives && !gets) continue;
      out += (out.empty() ? who + (present_ ? " has " : " had ") + spelled(now) : "") + "; " +
             calculation(now, gets ? "plus" : "minus", n);
      now += gets ? n : -n;
    }
    return out.empty() ? spelled(now) : out;
  }
  // What a person has, before a calculation with the items of two people.
  Text share_of(const Text& who) const {
    const Text counting = counting_of(who);
    return (counting.find(' ') == Text::npos ? who + " has " : "") + counting + "; ";
  }
  // The only event of a kind with these fields; an empty object if there are none or several.
  Json only(const Text& kind, const std::map<Text, Text>& fields) const {
    Json found = Json::object();
    int n = 0;
    for (const Json& e : events_) {
      bool fits = kind.empty() || e["event"] == kind;
      for (const auto& [key, value] : fields) fits = fits && get(e, key.c_str()) == value;
      if (fits) found = e, ++n;
    }
    return n == 1 ? found : Json::object();
  }
  Text he(const Text& who) const {
    for (const Json& p : people_)
      if (get(p, "name") == who) return get(p, "pronoun");
    return "?";
  }
  // "took the red kite", in the tense of the story.
  Text action_phrase(const Json& e) const {
    const bool present = present_;
    const Text kind = get(e, "event"), thing = "the " + get(e, "colour") + " " + get(e, "object");
    if (kind == "go") return (present ? "goes to the " : "went to the ") + get(e, "place");
    if (kind == "take") return (present ? "takes " : "took ") + thing;
    if (kind == "drop") return (present ? "puts down " : "put down ") + thing;
    if (kind == "give") return (present ? "gives " : "gave ") + thing + " to " + get(e, "to");
    if (kind == "do") return get(e, "action");
    return kind;
  }
  std::vector<Json> actions_of(const Text& who) const {
    static const std::set<Text> kActions = {"go",   "take", "drop", "give", "gain",
                                            "lose", "hand", "buy",  "do",   "trip"};
    std::vector<Json> out;
    for (const Json& e : events_)
      if (kActions.count(get(e, "event")) && (get(e, "who") == who || get(e, "with") == who))
        out.push_back(e);
    return out;
  }
  Text people() const {
    std::set<Text> names;
    for (const Json& e : events_)
      for (const char* key : {"who", "to", "with"})
        if (e.contains(key)) names.insert(get(e, key));
    std::vector<Text> order;
    std::istringstream words(text_);
    for (Text word; words >> word;) {
      Text letters;
      for (const char c : word) {
        if (c == '\'') break;
        if (isalpha(static_cast<unsigned char>(c))) letters += c;
      }
      if (names.erase(letters)) order.push_back(letters);
    }
    Text out;
    for (size_t i = 0; i < order.size(); ++i)
      out += (i == 0 ? "" : i + 1 == order.size() ? " and " : ", ") + order[i];
    return out;
  }

  const Json &events_, &people_;
  Text text_;
  bool present_;
};

Text past_of(const Text& verb) {
  static const std::map<Text, Text> kIrregular = {
      {"write", "wrote"},  {"read", "read"},    {"sing", "sang"},    {"draw", "drew"},
      {"build", "built"},  {"make", "made"},    {"feed", "fed"},     {"sweep", "swept"},
      {"ride", "rode"},    {"catch", "caught"}, {"buy", "bought"},   {"drink", "drank"},
      {"eat", "ate"},      {"dig", "dug"},      {"fly", "flew"},     {"tell", "told"},
      {"take", "took"},    {"hold", "held"},    {"shine", "shone"},  {"send", "sent"},
      {"hide", "hid"},     {"chop", "chopped"}, {"knit", "knitted"}, {"stir", "stirred"},
      {"study", "studied"}};
  if (const auto at = kIrregular.find(verb); at != kIrregular.end()) return at->second;
  return verb.back() == 'e' ? verb + "d" : verb + "ed";
}
// The base of a third person: "watches" is "watch".
Text base_of(const Text& third) {
  const auto ends = [&](const Text& end) {
    return third.size() > end.size() && third.substr(third.size() - end.size()) == end;
  };
  if (ends("ies")) return third.substr(0, third.size() - 3) + "y";
  if (ends("shes") || ends("ches") || ends("xes") || ends("sses")) return third.substr(0, third.size() - 2);
  return third.substr(0, third.size() - 1);
}
Text to_past(const Text& sentence) {
  std::istringstream in(sentence);
  std::vector<Text> words;
  for (Text word; in >> word;) words.push_back(word);
  const bool plural = words[1] == "and";
  Text& verb = words[plural ? 3 : 1];
  verb = past_of(plural ? verb : base_of(verb));
  Text out;
  for (const Text& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

Text StoryReader::answer(const Json& q) const {
  const Text ask = get(q, "ask"), who = get(q, "who"), with = get(q, "with"), object = get(q, "object"),
             word = get(q, "word");
  if (ask == "where") return object.empty() ? place_of(who) : find_thing(object);
  if (ask == "where before") {
    Text before, last;
    for (const Json& e : events_)
      if (moves(e, who)) before = last, last = phrase(e);
    return before;
  }
  if (ask == "who has") return holder(object);
  if (ask == "who gave") return get(only("give", {{"object", object}, {"to", get(q, "to")}}), "who");
  if (ask == "who got") return get(only("give", {{"object", object}, {"who", get(q, "from")}}), "to");
  if (ask == "owner") return get(only("owns", {{"object", object}}), "who");
  if (ask == "colour") return get(last_of(object), "colour");
  if (ask == "who is there") {
    std::set<Text> names, there;
    for (const Json& e : events_)
      for (const char* key : {"who", "to", "with"})
        if (e.contains(key)) names.insert(get(e, key));
    for (const Text& name : names)
      if (const Text at = place_of(name); !at.empty() && at.substr(at.find(" the ") + 5) == get(q, "place"))
        there.insert(name);
    return there.size() == 1 ? *there.begin() : "?";
  }
  if (ask == "carrying") {
    std::vector<Text> order, held;
    for (const Json& e : events_)
      if (e["event"] == "thing" || e["event"] == "holds") order.push_back(get(e, "object"));
    for (const Text& one : order)
      if (holder(one) == who) held.push_back("the " + get(last_of(one), "colour") + " " + one);
    Text out;
    for (size_t i = 0; i < held.size(); ++i)
      out += (i == 0 ? "" : i + 1 == held.size() ? " and " : ", ") + held[i];
    return out;
  }
  if (ask == "how many") return counting_of(who);
  if (ask == "together")
    return share_of(who) + share_of(with) + calculation(items_of(who), "plus", items_of(with));
  if (ask == "how many more")
    return share_of(who) + share_of(with) + calculation(items_of(who), "minus", items_of(with));
  if (ask == "more") {
    const Text facts = share_of(who) + share_of(with);
    return facts.substr(0, facts.size() - 2) + ", so " +
           ((items_of(who) > items_of(with)) == q["most"].get<bool>() ? who : with);
  }
  const auto age = [&](const Text& name) { return count_of(only("age", {{"who", name}})); };
  if (ask == "age") return spelled(age(who));
  if (ask == "years older")
    return who + " is " + spelled(age(who)) + "; " + with + " is " + spelled(age(with)) + "; " +
           calculation(age(who), "minus", age(with));
  if (ask == "older")
    return who + " is " + spelled(age(who)) + "; " + with + " is " + spelled(age(with)) + ", so " +
           ((age(who) > age(with)) == q["most"].get<bool>() ? who : with);
  if (ask == "price") return spelled(count_of(only("buy", {{"who", who}})) * count_of(only("price", {})));
  if (ask == "job") return an(get(only("job", {{"who", who}}), "word"));
  if (ask == "town") return "in " + get(only("town", {{"who", who}}), "word");
  if (ask == "likes") return get(only("likes", {{"who", who}}), "word");
  if (ask == "who is") {
    for (const char* kind : {"job", "town", "likes"})
      if (const Json e = only(kind, {{"word", word}}); !e.empty()) return get(e, "who");
    return "?";
  }
  if (ask == "relation") return get(only("relation", {{"who", who}, {"word", word}}), "to");
  if (ask == "animal") return an(get(only("pet", {{"name", get(q, "pet")}}), "animal"));
  if (ask == "pet name") return get(only("pet", {{"who", who}}), "name");
  if (ask == "pet owner") return get(only("pet", {{"name", get(q, "pet")}}), "who");
  if (ask == "weather now" || ask == "weather first") {
    Text first, last;
    for (const Json& e : events_)
      if (e["event"] == "weather") last = get(e, "word"), first = first.empty() ? last : first;
    return ask == "weather now" ? last : first;
  }
  if (ask == "when") return clock(count_of(only("do", {{"action", get(q, "action")}})));
  if (ask == "who did") return get(only("do", {{"action", get(q, "action")}}), "who");
  if (ask == "leaves" || ask == "arrives") {
    const Json e = only("trip", {{"who", who}});
    if (ask == "leaves") return clock(count_of(e));
    return who + (present_ ? " leaves at " : " left at ") + spelled(count_of(e)) + "; " +
           calculation(count_of(e), "plus", e.value("hours", 0));
  }
  if (ask == "first" || ask == "after" || ask == "before") {
    const std::vector<Json> all = actions_of(who);
    size_t at = 0;
    if (ask != "first") {
      while (at < all.size() && action_phrase(all[at]) != get(q, "action")) ++at;
      at += ask == "after" ? 1 : size_t(0) - 1;
    }
    return at < all.size() ? he(who) + " " + action_phrase(all[at]) : "?";
  }
  if (ask == "what at") {
    for (const Json& e : events_)
      if (e["event"] == "do" && get(e, "who") == who && count_of(e) == q["hour"].get<int>())
        return he(who) + " " + get(e, "action");
    return "?";
  }
  if (ask == "why")
    return "because " + he(who) + (present_ ? " is " : " was ") +
           get(only("go", {{"who", who}, {"place", get(q, "place")}}), "word");
  if (ask == "yes or no") return answer(q["about"]) == get(q, "value") ? "yes" : "no";
  if (ask == "people") return people();
  if (ask == "past tense") return to_past(get(q, "sentence"));
  return "?";
}

}  // namespace

std::string read_answer(const Json& record) { return StoryReader(record).answer(record["query"]); }

std::string read_fact(const Json& record) { return StoryReader(record).answer(record["query"]["about"]); }

}  // namespace makar
