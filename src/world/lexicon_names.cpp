// Names of people, pets and towns. No name is a word of another list (tests/world/lexicon_test.cpp).
#include "world/lexicon.h"

namespace makar::world {

const Words& women() {
  static const Words list = split_words(
      "Ada Adela Agatha Agnes Aida Alba Alice Alina Alma Amara Amelia Amina Amira Anita Anna Annika Anya "
      "Ariana "
      "Asha Astrid Audrey Aurora Ava Aya Beatrice Bella Bertha Bettina Bianca Birgit Brenda Bridget Camila "
      "Carla "
      "Carmen Carol Caroline Cecilia Celia Chiara Chloe Clara Claudia Cleo Cora Dagmar Daniela Daria Deborah "
      "Delia Denise Diana Dina Donna Dora Doris Edith Edna Effie Eileen Elaine Eleanor Elena Elise Eliza "
      "Ella "
      "Elsa Emilia Emily Emma Erica Esme Estelle Esther Etta Eva Evelyn Fatima Fiona Flora Frances Freya "
      "Frieda "
      "Gabriela Gemma Georgia Gerda Gilda Gina Gloria Greta Hanna Hattie Heidi Helen Helga Henrietta Hilda "
      "Ida "
      "Ilse Imogen Ines Inga Irene Irma Isabel Ivana Jana Jane Janet Jasmina Jenny Jessica Joan Johanna "
      "Josephine "
      "Judith Julia Juliet Karen Karin Kate Katya Kira Klara Kristina Lara Laura Leah Leila Lena Leonora "
      "Leyla "
      "Linda Lisa Livia Lottie Louisa Lucia Lucy Lydia Mabel Maggie Mara Margaret Maria Marie Marina Marta "
      "Martha "
      "Matilda Maya Megan Mia Mila Millie Mina Mira Miriam Molly Mona Monica Myra Nadia Nadine Naomi Natalia "
      "Nell "
      "Nina Noor Nora Odette Olga Olivia Ottilie Paula Pauline Petra Phoebe Polly Priya Rachel Ramona "
      "Rebecca "
      "Renata Rita Roberta Romy Rosa Rosalind Roxana Ruth Sabina Sabrina Salma Samira Sandra Sara Selma "
      "Sibyl "
      "Silvia Simona Sofia Sonia Stella Susan Sylvie Tamara Tania Tara Tatiana Tessa Thea Theresa Tilda Tina "
      "Una "
      "Ursula Valeria Vera Verona Vivian Wanda Wendy Wilma Yara Yasmin Yolanda Yvonne Zara Zelda Zena Zoe");
  return list;
}

const Words& men() {
  static const Words list = split_words(
      "Aaron Abel Abraham Adam Adrian Ahmed Aidan Alan Albert Aldo Alec Alex Alfred Ali Alvin Amir Amos "
      "Anders "
      "Andrew Angus Anton Archie Ari Arlo Arnold Arthur Axel Barney Basil Ben Benno Bernard Bert Boris Brian "
      "Bruno "
      "Callum Calvin Carl Casper Cedric Charles Chris Clemens Cliff Clive Colin Conrad Cyril Damian Daniel "
      "Darius "
      "David Declan Dennis Derek Diego Dimitri Dirk Dominic Donald Douglas Duncan Dylan Edgar Edmund Edward "
      "Edwin "
      "Eli Elias Elliot Emil Enzo Eric Erik Ernest Erwin Ethan Eugene Ezra Fabian Farid Felix Ferdinand "
      "Fergus "
      "Finn Floyd Francis Frank Fred Fritz Gareth Gavin George Gerald Gideon Gilbert Giles Gordon Gregory "
      "Gus "
      "Gustav Hamid Hans Harald Harold Harry Hassan Hector Henry Herbert Herman Hiro Horace Howard Hubert "
      "Hugh "
      "Hugo Humphrey Ian Ibrahim Igor Ira Isaac Ismael Ivan Ivor Jacob Jamal James Jan Jared Jasper Jerome "
      "Jim "
      "Joel Johan John Jonas Jonathan Jorge Joseph Joshua Julian Julius Kai Karim Karl Keith Kenneth Kevin "
      "Kofi "
      "Kurt Lars Laurence Leo Leon Leonard Leroy Lewis Liam Linus Lionel Lorenz Louis Luca Lucas Ludwig Luis "
      "Luke "
      "Magnus Malcolm Manuel Marcel Marco Marcus Mario Martin Matteo Maurice Max Michael Miguel Milo Morris "
      "Moses "
      "Mungo Nathan Ned Neil Niall Nicholas Nigel Nils Noah Norman Olaf Oliver Omar Oscar Otis Otto Owen "
      "Pablo "
      "Patrick Paul Pedro Percy Peter Philip Pierre Quentin Rafael Ralph Ramon Raoul Reuben Rex Richard "
      "Robert "
      "Roderick Rodney Roger Roland Rolf Roman Ronald Rory Rufus Rupert Salim Sam Samuel Saul Sean Sebastian "
      "Sergio Seth Sidney Silas Simon Stanley Stefan Steven Sven Tariq Terence Theo Thomas Tobias Todd Tom "
      "Tony "
      "Tristan Umberto Victor Vincent Walter Warren Wilfred William Xavier Yannick Yusuf Zachary");
  return list;
}

const Words& pet_names() {
  static const Words list = split_words(
      "Bandit Banjo Biscuit Blinky Bobbin Bonzo Boots Bubbles Bumble Buster Buttons Caramel Checkers Chip "
      "Chomper "
      "Cinder Comet Cookie Cosmo Cuddles Dash Dodger Dotty Duke Dusty Echo Fidget Flash Fluffy Freckles "
      "Fudge Fuzzy "
      "Gizmo Goggles Hazelnut Hopper Jellybean Jingles Jumbo Kipper Lucky Marble Mittens Mocha Muffin "
      "Nibbles "
      "Noodle Nugget Oreo Paddy Panther Patches Pebbles Pickle Piglet Pippin Pixel Puddles Pumpkin Quacker "
      "Rascal "
      "Ripple Rocket Rusty Sailor Scamp Scooter Scruffy Shadow Skippy Smokey Smudge Sneezy Snickers Snowball "
      "Socks "
      "Sparky Speckles Spike Spot Sprout Stripes Taffy Tango Teddy Thunder Tiger Toffee Truffle Tucker "
      "Twinkle "
      "Waffles Whiskers Wiggles Wobbles Yogi Zigzag Zippy");
  return list;
}

const Words& towns() {
  static const Words list = split_words(
      "Ambleford Applecross Ashbury Aston Barlow Bayview Beckton Bexford Birchwood Blackmoor Blakely Bramley "
      "Briarton Bridgeton Brightsea Brookfield Burnham Calderton Castleton Cedarville Chelford Clayton "
      "Cliffside "
      "Coldbrook Copperfield Cranston Crowley Dalebury Deepdale Dunmore Eastbourne Eastwick Edgewater "
      "Elmfield "
      "Fairhaven Fairview Farnham Fernhill Finchley Fordham Foxbridge Glenwood Goldcrest Grayson Greendale "
      "Greyport "
      "Hadley Halford Hampton Harbourne Hartwell Hawkley Hazelton Highgate Hillcrest Holloway Hopefield "
      "Hunterton "
      "Inverdale Ironbridge Ivybridge Kelton Kenford Kingsley Kirkby Lakewood Langdale Larkfield Laxton "
      "Linden "
      "Longford Maplewood Marlow Marshfield Mayfield Meadowbank Merton Midford Millbrook Milton Moorfield "
      "Newbury "
      "Newport Norwick Oakford Oakham Orchardton Otterbury Overton Penbrook Pinewood Plumstead Portham "
      "Prestwick "
      "Quarryton Ravensby Redhill Ridgeway Riverton Rockport Roseville Rowanton Salford Saltmarsh Sandwick "
      "Seabrook "
      "Selby Shelford Silverton Southgate Springfield Stonebridge Stratton Sunbury Swanley Thornton Tidewell "
      "Upton Valebrook Walford Waterford Wellsby Westbrook Whitby Willowton Windermoor Winterton Woodside "
      "Wykeham "
      "Yarrow Yewdale");
  return list;
}

}  // namespace makar::world
