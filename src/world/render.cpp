#include "world/render.h"

#include <fmt/format.h>

#include <algorithm>

namespace makar::world {
namespace {

const std::vector<Verb>& verbs_of(Kind kind) {
  static const std::vector<Verb> go = {{"go", "goes", "went"}, regular("walk"),
                                       {"run", "runs", "ran"}, regular("hurry"),
                                       regular("march"),       regular("stroll"),
                                       regular("rush"),        regular("wander"),
                                       regular("head"),        {"stride", "strides", "strode"},
                                       regular("race"),        {"drive", "drives", "drove"}};
  static const std::vector<Verb> take = {{"take", "takes", "took"},
                                         regular("grab"),
                                         {"pick up", "picks up", "picked up"},
                                         regular("collect"),
                                         {"get", "gets", "got"}};
  static const std::vector<Verb> drop = {regular("drop"),
                                         {"put down", "puts down", "put down"},
                                         {"set down", "sets down", "set down"},
                                         {"leave", "leaves", "left"}};
  static const std::vector<Verb> give = {{"give", "gives", "gave"},
                                         regular("hand"),
                                         regular("pass"),
                                         {"bring", "brings", "brought"},
                                         {"lend", "lends", "lent"}};
  static const std::vector<Verb> gain = {{"buy", "buys", "bought"},
                                         {"find", "finds", "found"},
                                         {"get", "gets", "got"},
                                         regular("collect"),
                                         {"win", "wins", "won"}};
  static const std::vector<Verb> lose = {{"lose", "loses", "lost"},
                                         {"sell", "sells", "sold"},
                                         regular("drop"),
                                         {"throw away", "throws away", "threw away"},
                                         {"eat", "eats", "ate"}};
  switch (kind) {
    case Kind::kGo:
      return go;
    case Kind::kTake:
      return take;
    case Kind::kDrop:
      return drop;
    case Kind::kGain:
      return gain;
    case Kind::kLose:
      return lose;
    default:
      return give;
  }
}

class Renderer {
 public:
  Renderer(const Story& s, Draw& d) : s_(s), d_(d) {}
  std::vector<Sentence> run();

 private:
  const Person& person(int i) const { return s_.people[static_cast<size_t>(i)]; }
  std::string name(int i) const { return std::string(person(i).name); }
  std::string was(bool plural = false) const {
    return s_.present ? (plural ? "are" : "is") : plural ? "were" : "was";
  }
  std::string form(const Verb& verb, bool plural = false) const {
    return verb_form(verb, s_.present, plural);
  }
  std::string had() const { return s_.present ? "has" : "had"; }
  std::string said() const { return s_.present ? "says" : "said"; }
  std::string o_clock(int hour) const { return "at " + number(hour) + " o'clock"; }

  std::string subject(const Event& e);
  std::string thing(int i, const Event& e);
  std::string predicate(const Event& e);  // "took the red kite"
  std::string fact(const Event& e);       // a whole sentence, without its full stop
  std::string speech(const Event& e);     // "I am nine years old," said Anna
  std::string given(const Event& e, const std::string& what);
  bool can_be_said(Kind kind) const {
    return kind == Kind::kAge || kind == Kind::kJob || kind == Kind::kTown || kind == Kind::kLikes ||
           kind == Kind::kCount;
  }
  std::string action(size_t i, size_t& last);  // one sentence for one or two events
  void add(std::string text, int first, int last, int about, std::vector<int> mentioned);

  const Story& s_;
  Draw& d_;
  std::vector<Sentence> out_;
  int about_ = -1;              // the subject of the last sentence
  std::vector<int> mentioned_;  // people in the last sentence
  int taken_ = -1;              // the thing that the last sentence's last event took
};

void Renderer::add(std::string text, int first, int last, int about, std::vector<int> mentioned) {
  const char end = text.back();
  text = capitalized(std::move(text));
  out_.push_back({end == '"' || end == '.' ? text : text + ".", first, last});
  about_ = about, mentioned_ = std::move(mentioned);
}

// A pronoun only if the last sentence is about this person and names nobody else whom it could mean.
std::string Renderer::subject(const Event& e) {
  if (e.b >= 0 && e.kind == Kind::kGo) return name(e.a) + " and " + name(e.b);
  const bool clear = about_ == e.a && std::none_of(mentioned_.begin(), mentioned_.end(), [&](int other) {
                       return other != e.a && person(other).female == person(e.a).female;
                     });
  return clear && d_.chance(1, 2) ? std::string(person(e.a).he()) : name(e.a);
}

std::string Renderer::thing(int i, const Event& e) {
  const Thing& t = s_.things[static_cast<size_t>(i)];
  if (taken_ == i && about_ == e.a && e.kind == Kind::kGive && d_.chance(1, 2)) return "it";
  return d_.chance(1, 2) ? full_name(t) : "the " + std::string(t.noun);
}

std::string Renderer::given(const Event& e, const std::string& what) {
  const std::string verb = form(d_.pick(verbs_of(Kind::kGive)));
  if (what != "it" && d_.chance(1, 3)) return verb + " " + name(e.b) + " " + what;
  return verb + " " + what + " to " + name(e.b);
}

std::string Renderer::predicate(const Event& e) {
  const bool plural = e.kind == Kind::kGo && e.b >= 0;
  if (e.kind == Kind::kDo) return done(*e.activity, s_.present);
  if (e.kind == Kind::kGive) return given(e, thing(e.thing, e));
  if (e.kind == Kind::kHand) return given(e, counted(e.n, *s_.item));
  if (e.kind == Kind::kBuy) return form({"buy", "buys", "bought"}) + " " + counted(e.n, *s_.item);
  const std::vector<Verb>& verbs = verbs_of(e.kind);
  // The last verb that loses items is "eat".
  const size_t choices = verbs.size() - (e.kind == Kind::kLose && !s_.item->edible ? 1 : 0);
  std::string out = form(verbs[static_cast<size_t>(d_.below(choices))], plural);
  switch (e.kind) {
    case Kind::kGo:
      if (d_.chance(1, 6)) out += " " + std::string(d_.pick(adverbs()));
      out += " to the " + std::string(s_.places[static_cast<size_t>(e.place)].noun);
      if (!e.word.empty()) out += fmt::format(" because {} {} {}", person(e.a).he(), was(), e.word);
      return out;
    case Kind::kTake:
      return out + " " + thing(e.thing, e);
    case Kind::kDrop:
      out += " " + thing(e.thing, e);
      return d_.chance(1, 3) ? out + " " + at_place(s_.places[static_cast<size_t>(e.place)]) : out;
    case Kind::kGain:
      return out + " " + number(e.n) + " more " + std::string(e.n == 1 ? s_.item->one : s_.item->many);
    default:
      return out + " " + counted(e.n, *s_.item);
  }
}

std::string Renderer::speech(const Event& e) {
  std::string words;
  if (e.kind == Kind::kAge) words = "I am " + number(e.n) + " years old";
  if (e.kind == Kind::kJob) words = "I am " + with_article(e.word);
  if (e.kind == Kind::kTown) words = "I live in " + std::string(e.word);
  if (e.kind == Kind::kLikes) words = "I like " + std::string(e.word);
  if (e.kind == Kind::kCount) words = "I have " + counted(e.n, *s_.item);
  const int order = d_.below(3);
  if (order == 0) return fmt::format("\"{},\" {} {}", words, said(), name(e.a));
  if (order == 1) return fmt::format("{} {}, \"{}.\"", name(e.a), said(), words);
  return fmt::format("\"{},\" {} {}", words, name(e.a), said());
}

std::string Renderer::fact(const Event& e) {
  const auto one_of = [&](std::initializer_list<std::string> forms) {
    return *(forms.begin() + d_.below(forms.size()));
  };
  const std::string word(e.word);
  if (e.kind == Kind::kThing) {
    const Thing& t = s_.things[static_cast<size_t>(e.thing)];
    const std::string a_thing = article(t.colour) + " " + full_name(t).substr(4),
                      there = at_place(s_.places[static_cast<size_t>(e.place)]);
    return one_of(
        {fmt::format("there {} {} {}", was(), a_thing, there), fmt::format("{} {} {}", a_thing, was(), there),
         fmt::format("{} {} {} {}", there, form({"stand", "stands", "stood"}), "a table with", a_thing),
         fmt::format("{} {} {}", a_thing, form({"lie", "lies", "lay"}), there)});
  }
  if (e.kind == Kind::kWeather)
    return one_of({fmt::format("it {} {}", was(), word), fmt::format("the weather {} {}", was(), word),
                   fmt::format("it {} {} {} day", was(), article(word), word)});
  if (e.kind == Kind::kPrice)
    return fmt::format("one {} {} {} coins", s_.item->one, form({"cost", "costs", "cost"}), number(e.n));
  if (e.kind == Kind::kOwns) {
    const std::string what = thing(e.thing, e);
    return one_of({fmt::format("{} {} to {}", what, form(regular("belong")), name(e.a)),
                   fmt::format("{} {} {}'s", what, was(), name(e.a))});
  }
  if (e.kind == Kind::kRelation) {
    const std::string a = name(e.a), b = name(e.b);
    return one_of({fmt::format("{} {} {}'s {}", b, was(), a, word),
                   fmt::format("{} {} {} called {}", a, had(), with_article(word), b)});
  }
  const std::string who = subject(e);
  switch (e.kind) {
    case Kind::kHere: {
      const std::string there = at_place(s_.places[static_cast<size_t>(e.place)]);
      return one_of({fmt::format("{} {} {}", who, was(), there),
                     fmt::format("{} {} {}", who, form(regular("wait")), there),
                     fmt::format("{} {} {}", who, form({"sit", "sits", "sat"}), there)});
    }
    case Kind::kHolds: {
      const Thing& t = s_.things[static_cast<size_t>(e.thing)];
      const std::string a_thing = article(t.colour) + " " + full_name(t).substr(4);
      return one_of({fmt::format("{} {} {}", who, had(), a_thing),
                     fmt::format("{} {} carrying {}", who, was(), a_thing),
                     fmt::format("{} {} {}", who, form({"hold", "holds", "held"}), a_thing)});
    }
    case Kind::kCount:
      return fmt::format("{} {} {}", who, had(), counted(e.n, *s_.item));
    case Kind::kAge:
      return fmt::format("{} {} {} years old", who, was(), number(e.n));
    case Kind::kJob:
      return one_of({fmt::format("{} {} {}", who, was(), with_article(word)),
                     fmt::format("{} {} as {}", who, form(regular("work")), with_article(word))});
    case Kind::kTown:
      return one_of({fmt::format("{} {} in {}", who, form(regular("live")), word),
                     fmt::format("{} {} a house in {}", who, had(), word)});
    case Kind::kLikes:
      return one_of({fmt::format("{} {} {}", who, form(regular("like")), word),
                     fmt::format("{} {} {}", who, form(regular("love")), word),
                     fmt::format("{} {} fond of {}", who, was(), word)});
    default: {
      const Pet& pet = s_.pets[static_cast<size_t>(e.n)];
      return one_of(
          {fmt::format("{} {} {} called {}", who, had(), with_article(pet.animal), pet.name),
           fmt::format("{} {} {} named {}", who, form(regular("own")), with_article(pet.animal), pet.name)});
    }
  }
}

std::string Renderer::action(size_t i, size_t& last) {
  const Event& e = s_.events[i];
  last = i;
  if (e.kind == Kind::kWeather) {
    const int choice = d_.below(3);
    return fmt::format("{} it {} {}", choice == 0 ? "then" : "later",
                       form(choice == 1 ? Verb{"become", "becomes", "became"} : regular("turn")), e.word);
  }
  if (e.kind == Kind::kTrip) {
    const std::string who = subject(e);
    return fmt::format("{}, {} {} for {}. The trip {} {}", o_clock(e.n), who,
                       form({"leave", "leaves", "left"}), e.word, form({"take", "takes", "took"}),
                       e.hours == 1 ? "one hour" : number(e.hours) + " hours");
  }
  if (e.kind == Kind::kDo && e.n > 0) {
    const bool first = d_.chance(1, 2);
    const std::string who = subject(e), what = predicate(e);
    return first ? fmt::format("{}, {} {}", o_clock(e.n), who, what)
                 : fmt::format("{} {} {}", who, what, o_clock(e.n));
  }
  std::string before;
  if (i > 0 && !s_.is_fact(i - 1) && d_.chance(1, 4)) {
    constexpr const char* kThen[] = {"then",  "after that,",     "later,",     "soon",
                                     "next,", "a little later,", "afterwards,"};
    before = std::string(d_.pick(kThen)) + " ";
  }
  const std::string who = subject(e);
  std::string text = before + who + " " + predicate(e);
  // Two actions of one person may share a sentence.
  if (i + 1 < s_.events.size() && e.word.empty()) {
    const Event& next = s_.events[i + 1];
    const auto alone = [](const Event& one) {
      return one.kind >= Kind::kGo && one.kind <= Kind::kDo && !(one.kind == Kind::kDo && one.n > 0) &&
             !(one.kind == Kind::kGo && one.b >= 0);
    };
    const bool repeats = next.kind == e.kind && e.kind != Kind::kGo && e.kind != Kind::kDo;
    const bool joins = next.a == e.a && alone(e) && alone(next) && !repeats;
    if (joins && d_.chance(1, 3)) {
      last = i + 1;
      taken_ = -1;
      text += " and " + predicate(next);
    }
  }
  return text;
}

std::vector<Sentence> Renderer::run() {
  for (size_t i = 0; i < s_.events.size(); ++i) {
    const Event& e = s_.events[i];
    size_t last = i;
    std::string text;
    const bool is_fact = s_.is_fact(i);
    if (is_fact && can_be_said(e.kind) && d_.chance(1, 5))
      text = speech(e);
    else
      text = is_fact ? fact(e) : action(i, last);
    if (i == 0 && text[0] != '"' && d_.chance(1, 4)) {
      constexpr const char* kOpenings[] = {"once upon a time, ", "one day, ", "one morning, ",
                                           "on a quiet afternoon, "};
      text = d_.pick(kOpenings) + text;
    }
    std::vector<int> mentioned;
    for (size_t k = i; k <= last; ++k)
      for (const int p : {s_.events[k].a, s_.events[k].b})
        if (p >= 0) mentioned.push_back(p);
    // After a joint action or a relation a pronoun would not be clear.
    const bool one = !(e.kind == Kind::kGo && e.b >= 0) && e.kind != Kind::kRelation && e.kind != Kind::kOwns;
    add(std::move(text), static_cast<int>(i), static_cast<int>(last), one ? e.a : -1, std::move(mentioned));
    const Event& end = s_.events[last];
    taken_ = end.kind == Kind::kTake && last == i ? end.thing : -1;
    if (end.kind == Kind::kGive && d_.chance(1, 4)) {
      constexpr const char* kThanks[] = {"Thank you", "How kind of you", "Thanks a lot", "That is lovely"};
      add(fmt::format("\"{},\" {} {}", d_.pick(kThanks), said(), name(end.b)), -1, -1, end.b, {end.b});
    }
    i = last;
  }
  if (d_.chance(1, 6)) {
    constexpr const char* kEnds[] = {"it {} a good day", "everybody {} happy", "it {} a day to remember",
                                     "that {} the end of the story", "it {} all very strange"};
    add(fmt::format(fmt::runtime(d_.pick(kEnds)), was()), -1, -1, -1, {});
  }
  return std::move(out_);
}

}  // namespace

std::vector<Sentence> render_story(const Story& story, Draw& draw) { return Renderer(story, draw).run(); }

}  // namespace makar::world
