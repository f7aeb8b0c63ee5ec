console.log(1)
import "./main.css"
