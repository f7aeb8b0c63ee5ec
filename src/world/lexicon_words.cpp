// Jobs, feelings, weather, activities, and word forms: articles, numbers, verbs.
#include <algorithm>
#include <deque>
#include <mutex>

#include "base/error.h"
#include "world/lexicon.h"

namespace makar::world {

Word keep(std::string made) {
  static std::mutex mutex;
  static std::deque<std::string> kept;  // a deque never moves its elements
  const std::lock_guard lock(mutex);
  return kept.emplace_back(std::move(made));
}

Words split_words(Word text) {
  Words out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    Word word = text.substr(at, end - at);
    if (word.find('_') != Word::npos) {
      std::string spaced(word);
      std::replace(spaced.begin(), spaced.end(), '_', ' ');
      word = keep(std::move(spaced));
    }
    if (!word.empty()) out.push_back(word);
    at = end + 1;
  }
  return out;
}

const Words& jobs() {
  static const Words list = split_words(
      "accountant acrobat actor architect artist astronaut astronomer athlete author baker banker barber "
      "beekeeper "
      "biologist blacksmith bookseller botanist bricklayer builder butcher butler captain carpenter cashier "
      "chef "
      "chemist cleaner clerk clown coach cobbler conductor cook dancer dentist designer detective "
      "diver doctor driver drummer editor electrician engineer explorer farmer firefighter fisher florist "
      "gardener "
      "geologist glassblower goldsmith grocer guard hairdresser historian hunter inspector interpreter "
      "inventor "
      "janitor jeweller joiner journalist judge juggler lawyer librarian lifeguard locksmith lumberjack "
      "magician mason mathematician mayor mechanic merchant messenger midwife miller miner model musician "
      "nurse optician organist painter pharmacist photographer physicist pianist pilot pirate plumber poet "
      "officer porter potter printer professor ranger receptionist reporter roofer sailor sculptor "
      "secretary senator sheriff shepherd shoemaker singer soldier stonecutter surgeon surveyor tailor "
      "teacher "
      "trader trainer translator umpire upholsterer vet violinist waiter watchmaker weaver welder writer "
      "zookeeper");
  return list;
}

const Words& feelings() {
  static const Words list = split_words(
      "angry anxious bored brave busy calm cheerful cold confused curious disappointed dizzy eager early "
      "excited "
      "frightened furious glad grumpy happy hungry impatient jealous late lazy lonely lost merry nervous "
      "proud "
      "restless sad scared shy sick sleepy surprised thirsty tired unhappy warm weary worried");
  return list;
}

const Words& weathers() {
  static const Words list = split_words(
      "bright chilly clear cloudy cold damp dry foggy freezing frosty grey hazy hot humid icy mild misty "
      "rainy snowy "
      "stormy sunny warm wet windy");
  return list;
}

const Words& adverbs() {
  static const Words list = split_words(
      "calmly carefully cautiously cheerfully eagerly gladly happily hastily lazily loudly merrily nervously "
      "patiently politely proudly quickly quietly sadly secretly silently slowly softly steadily straight "
      "swiftly "
      "wearily");
  return list;
}

const Words& relations_of_women() {
  static const Words list =
      split_words("sister aunt cousin friend neighbour teacher niece classmate boss partner");
  return list;
}
const Words& relations_of_men() {
  static const Words list =
      split_words("brother uncle cousin friend neighbour teacher nephew classmate boss partner");
  return list;
}

const std::vector<Activity>& activities() {
  // "base third past: complement, complement, ..."; one word before the colon is a regular verb.
  static const std::vector<std::string_view> rows = {
      "bake:a loaf of bread,a cherry tart,some muffins",
      "paint:a portrait,the fence,a wall",
      "wash:the dishes,the windows,a muddy car",
      "clean:the stove,the floor,the bathtub",
      "cook:a stew,some porridge,a big omelette",
      "play:a game of chess,the piano,hide and seek",
      "watch:a film,the sunset,a puppet show",
      "plant:an oak,some bulbs,a row of lettuce",
      "repair:a fence post,the roof tiles,an old bicycle",
      "visit:an old friend,the dentist,a gallery",
      "climb:a tall tree,a steep wall,the tower stairs",
      "count:the stars,the passing cars,a heap of change",
      "sort:the mail,a pile of socks,the recycling",
      "water:the roses,the vegetable patch,the ferns",
      "iron:a shirt,the tablecloths,a pair of trousers",
      "pack:a suitcase,a picnic,the camping gear",
      "fold:the laundry,a paper crane,the bedsheets",
      "polish:the silver spoons,a pair of boots,the brass bell",
      "mend:a torn sleeve,a fishing net,the broken chair",
      "carve:a wooden spoon,a pumpkin lantern,a small owl",
      "knit:a sweater,a woolly hat,some mittens",
      "stir:the soup,a pot of jam,the pancake batter",
      "collect:some firewood,a bag of leaves,seashells",
      "photograph:a rainbow,the old bridge,a family of swans",
      "study:a map of the world,a chapter of history,some Latin",
      "practise:the violin,a magic trick,cartwheels",
      "write writes wrote:a long letter,a poem,a shopping list",
      "read reads read:a thick novel,the newspaper,a comic",
      "sing sings sang:a lullaby,an old ballad,a cheerful song",
      "draw draws drew:a horse,a treasure map,a sketch of the valley",
      "build builds built:a sandcastle,a birdhouse,a model aeroplane",
      "make makes made:a paper boat,some lemonade,a snowman",
      "feed feeds fed:the hens,the goldfish,the neighbour's cat",
      "sweep sweeps swept:the stairs,the yard,the chimney",
      "ride rides rode:a horse,a bicycle,the carousel",
      "catch catches caught:a trout,a butterfly,the early bus",
      "buy buys bought:some stamps,a new coat,a bunch of flowers",
      "drink drinks drank:a cup of cocoa,some cold water,a glass of juice",
      "eat eats ate:a bowl of rice,some toast,a slice of pie",
      "dig digs dug:a deep hole,the vegetable bed,a trench",
      "fly flies flew:a kite,a small drone,a paper plane",
      "sew sews sewed:a button,a costume,a patchwork quilt",
      "learn learns learned:a new song,some Spanish,a card trick",
      "tell tells told:a joke,a ghost story,a riddle",
      "take takes took:a long nap,a hot bath,some photographs",
      "hold holds held:a meeting,a baby goat,a yard sale",
      "chop:some firewood,the vegetables,a heap of logs",
      "solve:a crossword,a hard puzzle,a riddle in the paper",
      "mow mows mowed:the lawn,the football pitch,the neighbour's grass",
      "brush:the pony,the dog,the dusty rug",
      "milk:the cows,a goat,the sheep",
      "peel:some potatoes,a bag of carrots,a pineapple",
      "rake:the leaves,the gravel path,the hay",
      "shine shines shone:a torch,a lamp on the wall,a light into the well",
      "send sends sent:a parcel,a telegram,a birthday card",
      "hide hides hid:a present,a secret note,some eggs"};
  static const std::vector<Activity> list = [] {
    std::vector<Activity> out;
    for (const std::string_view row : rows) {
      const size_t colon = row.find(':');
      const Words forms = split_words(row.substr(0, colon));
      const Verb verb = forms.size() == 3 ? Verb{forms[0], forms[1], forms[2]} : regular(forms[0]);
      for (size_t at = colon + 1; at < row.size();) {
        const size_t end = std::min(row.find(',', at), row.size());
        out.push_back({verb, row.substr(at, end - at)});
        at = end + 1;
      }
    }
    return out;
  }();
  return list;
}

std::string article(Word word) {
  for (const Word sounded : {"unicycle", "uniform", "ukulele", "unicorn", "university", "useful"})
    if (word.substr(0, sounded.size()) == sounded) return "a";
  if (word.substr(0, 4) == "hour") return word == "hourglass" || word == "hour" ? "an" : "a";
  return Word("aeiouAEIOU").find(word.empty() ? 'x' : word[0]) != Word::npos ? "an" : "a";
}

std::string with_article(Word word) { return article(word) + " " + std::string(word); }

std::string number(int n) {
  static const Words small = split_words(
      "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
      "seventeen eighteen nineteen");
  static const Words tens = split_words("zero ten twenty thirty forty fifty sixty seventy eighty ninety");
  check(n >= 0 && n < 100, "a number from 0 to 99");
  if (n < 20) return std::string(small[static_cast<size_t>(n)]);
  std::string out(tens[static_cast<size_t>(n / 10)]);
  if (n % 10 > 0) out += "-" + std::string(small[static_cast<size_t>(n % 10)]);
  return out;
}

Verb regular(Word base) {
  const auto ends = [&](Word end) {
    return base.size() > end.size() && base.substr(base.size() - end.size()) == end;
  };
  const bool y = ends("y") && Word("aeiou").find(base[base.size() - 2]) == Word::npos;
  const std::string stem(y ? base.substr(0, base.size() - 1) : base);
  const bool hisses = ends("s") || ends("x") || ends("ch") || ends("sh");
  // Verbs with one short vowel double their last consonant: chop, chopped.
  const bool doubles = base == "chop" || base == "knit" || base == "stir" || base == "grab" || base == "drop";
  const Word third = keep(y ? stem + "ies" : stem + (hisses ? "es" : "s"));
  const Word past = keep(y           ? stem + "ied"
                         : ends("e") ? stem + "d"
                         : doubles   ? stem + stem.back() + "ed"
                                     : stem + "ed");
  return {base, third, past};
}

}  // namespace makar::world
