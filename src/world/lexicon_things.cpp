// Places and things.
#include "world/lexicon.h"

namespace makar::world {
namespace {

void add_places(std::vector<Place>& out, Word preposition, Word nouns) {
  for (const Word noun : split_words(nouns)) out.push_back({noun, preposition});
}

Word plural_of(Word one) {
  static const std::vector<std::pair<Word, Word>> irregular = {
      {"leaf", "leaves"}, {"potato", "potatoes"}, {"tomato", "tomatoes"}, {"mango", "mangoes"}};
  for (const auto& [singular, plural] : irregular)
    if (singular == one) return plural;
  const auto ends = [&](Word end) {
    return one.size() > end.size() && one.substr(one.size() - end.size()) == end;
  };
  if (ends("y") && Word("aeiou").find(one[one.size() - 2]) == Word::npos)
    return keep(std::string(one.substr(0, one.size() - 1)) + "ies");
  return keep(std::string(one) + (ends("s") || ends("x") || ends("ch") || ends("sh") ? "es" : "s"));
}

void add_items(std::vector<Item>& out, bool edible, Word nouns) {
  for (const Word one : split_words(nouns)) out.push_back({one, plural_of(one), edible});
}

}  // namespace

const std::vector<Place>& places() {
  static const std::vector<Place> list = [] {
    std::vector<Place> out;
    add_places(
        out, "in",
        "attic bakery barn basement bathroom bedroom cabin canyon castle cathedral cave cellar chapel church "
        "classroom courtyard den desert dining_room dungeon factory field forest garage garden greenhouse "
        "gym "
        "hallway hospital hotel hut jungle kitchen laboratory library living_room lobby lounge meadow mill "
        "mine museum nursery office orchard palace pantry park pavilion playground pool_house quarry "
        "restaurant school shed stable stadium storeroom studio swamp tavern temple tent theatre tower "
        "tunnel "
        "valley vineyard warehouse waiting_room workshop yard zoo");
    add_places(out, "at",
               "airport bank bus_stop cinema clinic crossroads dock fair farm fire_station fountain gate "
               "harbour inn "
               "lake lighthouse market monument pier police_station pond port post_office river shop station "
               "supermarket town_hall university waterfall well windmill");
    add_places(
        out, "on",
        "balcony beach boat bridge bus cliff deck ferry hill island lawn mountain path platform plaza porch "
        "raft roof ship stage terrace train tram");
    return out;
  }();
  return list;
}

const Words& objects() {
  static const Words list = split_words(
      "accordion album anchor apron armband axe backpack badge bag balloon bandage banner basket bat battery "
      "bell belt "
      "bicycle_pump binder blanket blouse bonnet book bottle bouquet bow bowl box bracelet brick broom brush "
      "bucket "
      "bugle cage cake_tin calendar camera candle cane cap cape card cardigan carpet cello chain chart "
      "chessboard clock cloak coat coat_hanger coffee_pot collar comb compass cord crate crown cup curtain "
      "cushion "
      "dagger diary dictionary dish doll drill drum duster earring easel envelope eraser fan feather fiddle "
      "fishing_rod flag flashlight flask flute folder football fork frame funnel glove goblet guitar hammer "
      "hammock "
      "handbag handkerchief harmonica harness harp hat headband helmet hook horn hourglass jacket jar jigsaw "
      "jug "
      "kettle key keyring kite ladder ladle lamp lantern lasso leash letter lid lock locket lunchbox "
      "magazine "
      "magnet mallet mandolin map mask mat medal megaphone microphone microscope mirror mitten mop mug nail "
      "napkin necklace needle net notebook oar oboe oven_glove package padlock paddle paintbrush pan "
      "parachute parasol parcel peg pen pencil penknife photo picture_frame pillow pin pipe pitcher "
      "plank "
      "plate pliers_case plug pocket_watch poster pot pouch projector prop puppet purse puzzle quilt quiver "
      "racket "
      "radio rake raincoat rattle razor recorder ribbon ring robe rope rucksack rug ruler saddle safe sail "
      "sandal satchel saucer saw saxophone scale scarf scooter screwdriver scroll shawl shield shirt shoe "
      "shovel "
      "sickle sign skateboard skirt sled slipper snorkel sock spade spanner spear sponge spoon stamp stapler "
      "statue stick stool suitcase sundial sweater sword tablecloth tambourine teapot telescope "
      "thermometer thimble ticket tie toaster toolbox toothbrush torch towel toy_car tray triangle trombone "
      "trophy "
      "trowel trumpet trunk tuba tunic turban typewriter umbrella vase veil vest vial violin wallet wand "
      "watch "
      "watering_can wheel whip whisk whistle wig wreath wrench xylophone yo-yo zither");
  return list;
}

const Words& colours() {
  static const Words list = split_words(
      "amber beige black blue bronze brown copper cream crimson golden green grey indigo ivory lilac maroon "
      "navy "
      "olive orange pink purple red scarlet silver tan teal turquoise violet white yellow");
  return list;
}

const std::vector<Item>& items() {
  static const std::vector<Item> list = [] {
    std::vector<Item> out;
    add_items(
        out, true,
        "almond apple apricot bagel banana bean biscuit bun cabbage carrot cherry chestnut cracker cucumber "
        "date "
        "doughnut dumpling egg fig grape hazelnut leek lemon lime lollipop mango melon mushroom nut olive "
        "onion "
        "oyster pancake pea peach peanut pear pepper pie plum potato pretzel radish raisin sandwich sausage "
        "strawberry sweet tart tomato truffle turnip walnut");
    add_items(out, false,
              "acorn arrow bead block bolt brooch button card cone crayon crystal cube dart diamond "
              "domino emerald "
              "fossil gem jewel leaf log lily marble match medallion nail orchid paperclip pearl pebble "
              "petal pinecone "
              "postcard rose ruby sapphire screw seed shell sticker stone straw sunflower thistle tile token "
              "tulip twig");
    return out;
  }();
  return list;
}

const Words& foods() {
  static const Words list = split_words(
      "almonds apples bananas barley beans beetroot berries biscuits bread broccoli burgers butter cabbage "
      "cake "
      "caramels carrots cashews celery cereal cheese cherries chestnuts chicken chocolate chutney coconuts "
      "couscous "
      "crackers cream crumpets cucumbers custard dates dumplings eggs figs fudge garlic ginger grapes gravy "
      "ham hazelnuts honey hummus ice_cream jam jelly kale ketchup leeks lemonade lemons lentils lettuce "
      "lobster "
      "macaroni mangoes marmalade melons milk muesli muffins mushrooms mustard noodles nuts oats olives "
      "omelettes "
      "onions oranges oysters pancakes parsley pasta pastries peaches peanuts pears peas peppers pickles "
      "pies "
      "pineapples pistachios pizza plums popcorn porridge potatoes pretzels prunes pudding pumpkins quinoa "
      "radishes "
      "raisins raspberries rhubarb rice salad salmon sandwiches sauce sausages scones soup spinach stew "
      "strawberries sugar sushi syrup tacos tea toast tofu tomatoes tuna turnips vanilla waffles walnuts "
      "yoghurt");
  return list;
}

const Words& animals() {
  static const Words list = split_words(
      "alligator alpaca ant_eater antelope armadillo baboon badger bat bear beaver beetle bison boar buffalo "
      "bull "
      "butterfly calf camel canary cat chameleon cheetah chicken chimpanzee chinchilla cobra cockatoo cow "
      "coyote "
      "crab crane cricket crocodile crow deer dingo dog dolphin donkey dove dragonfly duck eagle eel "
      "elephant elk "
      "falcon ferret finch flamingo fox frog gazelle gecko gerbil gibbon giraffe goat goldfish goose gorilla "
      "grasshopper guinea_pig gull hamster hare hawk hedgehog heron hippo hornet horse hyena iguana jackal "
      "jaguar "
      "kangaroo kitten koala lamb lemur leopard lion lizard llama lynx magpie meerkat mole mongoose monkey "
      "moose "
      "mouse mule newt octopus opossum ostrich otter owl ox panda parrot peacock pelican penguin pheasant "
      "pig pigeon "
      "pony porcupine puffin puma puppy python quail rabbit raccoon ram rat raven reindeer rhino robin "
      "rooster "
      "seal shark sheep skunk sloth snail snake sparrow spider squid squirrel stork swan tapir toad "
      "tortoise toucan turkey turtle vulture walrus wasp weasel whale wolf wombat woodpecker yak zebra");
  return list;
}

}  // namespace makar::world
