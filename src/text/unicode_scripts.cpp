#include "text/unicode_scripts.h"

namespace makar {

std::string unicode_scripts_pattern() {
  const char* const scripts[] = {
      "Latin", "Greek", "Cyrillic", "Arabic", "Hebrew", "Hangul", "Thai", "Devanagari", "Bengali", "Tamil", "Inherited",
      "Adlam", "Ahom", "Anatolian_Hieroglyphs", "Armenian", "Avestan", "Balinese", "Bamum", "Bassa_Vah", "Batak",
      "Bhaiksuki", "Bopomofo", "Brahmi", "Braille", "Buginese", "Buhid", "Canadian_Aboriginal", "Carian",
      "Caucasian_Albanian", "Chakma", "Cham", "Cherokee", "Coptic", "Cuneiform", "Cypriot", "Deseret", "Duployan",
      "Egyptian_Hieroglyphs", "Elbasan", "Ethiopic", "Georgian", "Glagolitic", "Gothic", "Grantha", "Gujarati",
      "Gurmukhi", "Hanunoo", "Hatran", "Imperial_Aramaic", "Inscriptional_Pahlavi", "Inscriptional_Parthian",
      "Javanese", "Kaithi", "Kannada", "Kayah_Li", "Kharoshthi", "Khmer", "Khojki", "Khudawadi", "Lao", "Lepcha",
      "Limbu", "Linear_A", "Linear_B", "Lisu", "Lycian", "Lydian", "Mahajani", "Malayalam", "Mandaic", "Manichaean",
      "Marchen", "Meetei_Mayek", "Mende_Kikakui", "Meroitic_Cursive", "Meroitic_Hieroglyphs", "Miao", "Modi",
      "Mongolian", "Mro", "Multani", "Myanmar", "Nabataean", "New_Tai_Lue", "Newa", "Nko", "Ogham", "Ol_Chiki",
      "Old_Hungarian", "Old_Italic", "Old_North_Arabian", "Old_Permic", "Old_Persian", "Old_South_Arabian",
      "Old_Turkic", "Oriya", "Osage", "Osmanya", "Pahawh_Hmong", "Palmyrene", "Pau_Cin_Hau", "Phags_Pa", "Phoenician",
      "Psalter_Pahlavi", "Rejang", "Runic", "Samaritan", "Saurashtra", "Sharada", "Shavian", "Siddham", "SignWriting",
      "Sinhala", "Sora_Sompeng", "Sundanese", "Syloti_Nagri", "Syriac", "Tagalog", "Tagbanwa", "Tai_Le", "Tai_Tham",
      "Tai_Viet", "Takri", "Tangut", "Telugu", "Thaana", "Tibetan", "Tifinagh", "Tirhuta", "Ugaritic", "Vai",
      "Warang_Citi", "Yi",
  };
  const std::string han = "\\p{sc:Han}\\p{sc:Hiragana}\\p{sc:Katakana}\\x{30FC}";
  std::string pattern = "[" + han + "][" + han + " \\p{Cn}]*";
  pattern += "|(?![ \\x{30FC}])\\p{sc:Common}(?:(?!\\x{30FC})[\\p{sc:Common}\\p{Cn}])*";
  for (const char* script : scripts) {
    const std::string one = std::string("\\p{sc:") + script + "}";
    pattern += "|" + one + "[" + one + " \\p{Cn}]*";
  }
  return pattern;
}

}  // namespace makar
