#include "retrieval/stop_words.h"

namespace makar {
namespace {

struct StopWordList {
  std::string_view language, words;
};

// Articles, pronouns, prepositions, conjunctions, auxiliary verbs.
constexpr StopWordList kLists[] = {
    {"english",
     "a an the and or but if then than so as at by for from in into of off on onto out over to up with about "
     "after before between through under is am are was were be been being do does did has have had having "
     "will "
     "would shall should can could may might must not no nor it its he him his she her hers they them their "
     "theirs we us our ours you your yours i me my mine this that these those there here what which who whom "
     "whose when where why how such same own each both few more most other some any all only very too just"},
    {"german",
     "der die das den dem des ein eine einen einem einer eines und oder aber wenn dann als wie so zu zum zur "
     "in "
     "im ins an am auf aus bei beim mit nach von vom vor durch für über unter um gegen ohne ist sind war "
     "waren "
     "bin bist sein wird werden wurde wurden hat haben hatte hatten kann können soll will muss nicht kein "
     "keine "
     "ich du er sie es wir ihr mich dich ihn uns euch mir dir ihm ihnen mein dein unser dieser diese dieses "
     "welche was wer wo wann warum auch nur noch schon sehr mehr dass daß sich man"},
    {"french",
     "le la les l un une des du de d et ou mais si alors que qu comme à au aux en dans sur sous par pour "
     "avec "
     "sans chez vers est sont était étaient être été suis es ai as a ont avait avaient avoir fait ne n pas "
     "plus "
     "je tu il elle on nous vous ils elles me te se lui leur leurs mon ma mes ton ta tes son sa ses notre "
     "nos "
     "votre vos ce cet cette ces c qui quoi dont où quand y aussi très même"},
    {"spanish",
     "el la los las un una unos unas lo y e o u pero si entonces que como a al de del en con sin por para "
     "sobre "
     "entre hasta desde es son era eran ser sido soy está están estaba ha han había haber no ni yo tú él "
     "ella "
     "ello nosotros vosotros ellos ellas me te se le les nos os mi mis tu tus su sus nuestro vuestro este "
     "esta "
     "estos estas ese esa eso esos esas quien cual cuando donde más muy ya también"},
    {"italian",
     "il lo la i gli le l un uno una e ed o ma se che come a ad al allo alla ai agli alle di del dello della "
     "dei "
     "degli delle da dal dalla in nel nella nei nelle con su sul sulla per tra fra è sono era erano essere "
     "stato "
     "ho hai ha hanno aveva avere non né io tu egli lui lei noi voi essi loro mi ti si ci vi mio tuo suo "
     "nostro "
     "vostro questo questa questi queste quello quella chi cui quando dove più molto anche"},
    {"portuguese",
     "o a os as um uma uns umas e ou mas se que como ao aos à às de do da dos das em no na nos nas com sem "
     "por "
     "pelo pela para sobre entre até desde é são era eram ser foi está estão estava tem têm tinha ter não "
     "nem eu "
     "tu ele ela nós vós eles elas me te lhe lhes meu minha teu tua seu sua nosso nossa este esta isto esse "
     "essa "
     "isso aquele aquela quem qual quando onde mais muito já também"},
    {"dutch",
     "de het een en of maar als dan zo te aan af bij door in met na naar om onder op over tegen tot uit van "
     "voor "
     "zonder is ben bent zijn was waren wordt worden werd heeft hebben had hadden kan kunnen zal zou moet "
     "niet "
     "geen ik jij je hij zij ze wij we jullie u mij me hem haar ons hun mijn jouw zijn onze deze dit die dat "
     "wie "
     "wat waar wanneer hoe ook nog al meer zeer er"},
    {"swedish",
     "en ett den det de och eller men om så som än att av för från i in med mot på till under ur ut vid över "
     "utan "
     "är var vara varit blir blev har hade ha kan ska skall skulle inte ingen jag du han hon vi ni dem mig "
     "dig "
     "honom henne oss er min din sin vår denna detta dessa vem vad vilken när var hur också mer mycket man "
     "sig"},
};

}  // namespace

std::string_view stop_words(std::string_view language) {
  for (const StopWordList& list : kLists)
    if (list.language == language) return list.words;
  return "";
}

}  // namespace makar
